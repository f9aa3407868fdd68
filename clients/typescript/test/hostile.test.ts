// What a client does with frames that no replica of lockfast would send.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type RawData, type WebSocket, WebSocketServer } from "ws";
import { connect, type Lease, LeaseLost } from "../src/index.js";
import { Servers, until } from "./servers.js";

let servers: Servers;
before(async () => (servers = await Servers.start()));
after(async () => await servers.stop());

const DEEP = "[".repeat(200_000);
const FRAMES: Record<string, string | Buffer> = {
  "no JSON": "{",
  "no object": "[]",
  "deeply nested": DEEP,
  "an unknown type": '{"t":"hurry"}',
  "a type of every object": '{"t":"constructor"}',
  "no type": "{}",
  "a missing field": '{"t":"said","n":1}',
  "a result that is none": '{"t":"said","n":1,"results":[7]}',
  "too many results": JSON.stringify({ t: "said", n: 1, results: Array(65).fill(null) }),
  "a lease for ever": '{"t":"said","n":1,"results":[{"ticket":1,"granted":true,"left":1e400}]}',
  "a token that is no integer": '{"t":"said","n":1,"results":[{"ticket":1.5,"granted":true,"left":9}]}',
  "a token beyond 2**53": '{"t":"said","n":1,"results":[{"ticket":9007199254740993,"granted":true,"left":9}]}',
  "a reply to another question": '{"t":"gone","n":NUMBER,"results":[true]}',
  "the end of the connection, with a reason": '{"t":"failed","n":0,"fault":{"kind":"refused","why":"\\u001b[2J"}}',
  "a second greeting": '{"t":"welcome","v":1,"client":"ffffffffffffffffffffff"}',
  "binary": Buffer.from('{"t":"goaway"}'),
};

interface Asked {
  t: string;
  n: number;
  secret: string;
  epoch: number;
  doubt?: boolean;
  asks: [{ id: string; not_after: number | null }];
}
type Spoil = (socket: WebSocket, asked: Asked) => void;

/** Pass everything on to a real replica, but spoil the replies to one kind of request on the first connection. */
async function between(spoil: Spoil, kind = "renew") {
  const { WebSocket: Socket } = await import("ws");
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1", path: "/v1/connect" });
  const seen: Asked[] = [];
  let connections = 0;
  server.on("connection", (inside) => {
    const honest = ++connections > 1;
    const outside = new Socket(`${servers.told.replicas[0].replace("lockfast", "ws")}/v1/connect`);
    const early: RawData[] = [];
    outside.on("open", () => early.splice(0).forEach((data) => outside.send(String(data))));
    outside.on("message", (data) => inside.send(String(data)));
    inside.on("message", (data) => {
      const asked = JSON.parse(String(data)) as Asked;
      seen.push(asked);
      if (asked.t === kind && asked.asks[0].not_after !== null && !honest) spoil(inside, asked);
      else if (outside.readyState === Socket.OPEN) outside.send(String(data));
      else early.push(data);
    });
    for (const each of [inside, outside]) {
      each.on("error", () => {}).on("close", () => (inside.terminate(), outside.terminate()));
    }
  });
  await new Promise((done) => server.once("listening", done));
  const { port } = server.address() as { port: number };
  const stop = () => (server.clients.forEach((each) => each.terminate()), server.close());
  return { url: `lockfast://127.0.0.1:${port}`, stop, seen, connections: () => connections };
}

/** Check that a frame ends the connection, and nothing else: the lease is renewed on the next one. */
async function survives(spoil: Spoil): Promise<void> {
  const { url, stop, connections } = await between(spoil);
  const client = connect(url, { log: () => {} });
  const lease: Lease = await client.acquire(`hostile:${url}`, { ttl: 2 });
  await until(() => connections() > 1, "a second connection");
  await new Promise((done) => setTimeout(done, 2_500));
  lease.check();
  await lease.release();
  await client.close();
  stop();
}

test("a hostile frame ends the connection and nothing else", { concurrency: 8 }, async (context) => {
  await Promise.all(
    Object.entries(FRAMES).map(([what, frame]) =>
      context.test(what, async () => {
        await survives((socket, { n }) => socket.send(typeof frame === "string" ? frame.replace("NUMBER", String(n)) : frame));
      }),
    ),
  );
});

test("a broken WebSocket ends the connection and nothing else", { concurrency: 8 }, async (context) => {
  const raw: Record<string, Buffer> = {
    "a frame of 64 MiB and one byte": Buffer.from([0x81, 127, 0, 0, 0, 0, 4, 0, 0, 1]),
    "a frame that is masked": Buffer.from([0x81, 0x82, 0, 0, 0, 0, 0x7b, 0x7d]),
    "an unknown opcode": Buffer.from([0x83, 0]),
    "a reserved bit": Buffer.from([0xc1, 2, 0x7b, 0x7d]),
    "text that is not UTF-8": Buffer.from([0x81, 1, 0xff]),
    "a close frame of one byte": Buffer.from([0x88, 1, 3]),
  };
  await Promise.all(
    Object.entries(raw).map(([what, bytes]) =>
      context.test(what, async () => {
        await survives((socket) => (socket as unknown as { _socket: { write(data: Buffer): void } })._socket.write(bytes));
      }),
    ),
  );
});

test("after a lost reply, the next connection has the same ids, and the resignation leaves a tombstone", async () => {
  const { url, stop, seen } = await between((socket) => socket.terminate(), "claim");
  const client = connect(url, { log: () => {} });
  await (await client.acquire("lost reply", { ttl: 5 })).release();
  await client.close();
  stop();
  const kinds = (kind: string) => seen.filter((each) => each.t === kind);
  const [first, second] = kinds("hello");
  assert.deepEqual([first?.epoch, second?.epoch], [1, 2]);
  assert.ok(first && first.secret.length >= 43 && first.secret === second?.secret);
  const [claim, copy] = kinds("claim").filter((each) => each.asks[0].not_after !== null);
  assert.ok(claim);
  assert.deepEqual(copy?.asks, claim.asks);
  assert.deepEqual(kinds("resign").map((each) => [each.asks[0].id, each.doubt]), [[claim.asks[0].id, true]]);
});

test("a lease is valid from before its request was sent, and not from the reply", async () => {
  let seen = Infinity;
  const { url, stop } = await between((socket, { n }) => {
    seen = performance.now();
    const reply = { t: "said", n, results: [{ ticket: 7, granted: true, left: 5 }] };
    setTimeout(() => socket.send(JSON.stringify(reply)), 700);
  }, "claim");
  const client = connect(url, { log: () => {} });
  const lease = await client.acquire("slow reply", { ttl: 5 });
  assert.ok(lease.validUntil <= seen + 4_950, `${lease.validUntil - seen} ms after the request arrived`);
  await assert.rejects(lease.release(), LeaseLost); // the engine has never had it
  await client.close();
  stop();
});

test("a release without lost replies leaves no tombstone", async () => {
  const { url, stop, seen } = await between(() => {}, "nothing");
  const client = connect(url, { log: () => {} });
  await (await client.acquire("no tombstone", { ttl: 5 })).release();
  await client.close();
  stop();
  assert.deepEqual(seen.filter((each) => each.t === "resign").map((each) => each.doubt), [false]);
});

test("a server that is none, or greets wrongly, is an error and no crash", async () => {
  const replies = ['{"t":"welcome","v":2,"client":"ffffffffffffffffffffff"}', '{"t":"said","n":1,"results":[]}', '{"t":"goaway"}'];
  for (const reply of replies) {
    const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
    server.on("connection", (socket) => socket.on("message", () => socket.send(reply)));
    await new Promise((done) => server.once("listening", done));
    const client = connect(`lockfast://127.0.0.1:${(server.address() as { port: number }).port}`);
    await assert.rejects(client.acquire("x", { ttl: 5, timeout: 0.3 }), /EngineRefused|EngineUnavailable|greet/);
    await client.close();
    server.clients.forEach((each) => each.terminate());
    server.close();
  }
});
