// Acquisition, release and loss, before one replica that works.
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { type Client, connect, EngineRefused, EngineUnavailable, LeaseLost, NotAcquired } from "../src/index.js";
import { Clock } from "../src/clock.js";
import { Servers, until } from "./servers.js";

let servers: Servers;
const clients: Client[] = [];
before(async () => (servers = await Servers.start()));
after(async () => await servers.stop());
afterEach(async () => {
  await Promise.all(clients.splice(0).map((each) => each.close()));
});

function client(): Client {
  const made = connect(servers.told.replicas[0], { log: () => {} });
  clients.push(made);
  return made;
}

test("a lock is acquired, excludes others, and is released", async () => {
  const [first, second] = [client(), client()];
  const lease = await first.acquire("pair", { ttl: 5, purpose: "to hold it" });
  assert.ok(lease.held);
  const left = (lease.validUntil - performance.now()) / 1e3;
  assert.ok(left > 4 && left <= 5 * 0.99);
  await assert.rejects(second.acquire("pair", { ttl: 5, timeout: 0 }), (error) => {
    assert.ok(error instanceof NotAcquired);
    assert.match(error.message, /"pair" was not acquired.*to hold it.*pid \d+ \[node\]/);
    return true;
  });
  await lease.release();
  assert.ok(!lease.held);
  assert.ok(!lease.signal.aborted);
  await (await second.acquire("pair", { ttl: 5, timeout: 0 })).release();
});

test("the token grows with each lease", async () => {
  const one = client();
  let last = 0n;
  for (let time = 0; time < 5; time++) {
    const lease = await one.acquire("tokens", { ttl: 5 });
    assert.ok(lease.token > last);
    last = lease.token;
    await lease.release();
  }
});

test("waiters acquire in the order in which they came, by wakes", async () => {
  const [first, second, third] = [client(), client(), client()];
  const lease = await first.acquire("queue", { ttl: 60 });
  const order: string[] = [];
  const waits = [];
  for (const [name, each] of [["second", second], ["third", third]] as const) {
    const wait = each.acquire("queue", { ttl: 60 });
    waits.push(wait.then((granted) => (order.push(name), granted.release())));
    await until(async () => (await servers.who("queue")).length === waits.length + 1, "it waits");
  }
  const began = performance.now();
  await lease.release();
  await Promise.all(waits);
  assert.deepEqual(order, ["second", "third"]);
  assert.ok(performance.now() - began < 2_000, "no wake came");
});

test("a lease is renewed for longer than its ttl", async () => {
  const lease = await client().acquire("renewed", { ttl: 0.6 });
  await new Promise((done) => setTimeout(done, 2_000));
  lease.check();
  await lease.release();
});

test("a waiter keeps its place for longer than its ttl", async () => {
  const [first, second] = [client(), client()];
  const lease = await first.acquire("patient", { ttl: 0.6 });
  const wait = second.acquire("patient", { ttl: 0.6 });
  await until(async () => (await servers.who("patient")).length === 2, "it waits");
  const place = (await servers.who("patient"))[1]?.id;
  await new Promise((done) => setTimeout(done, 1_500));
  assert.equal((await servers.who("patient"))[1]?.id, place);
  await lease.release();
  assert.equal((await wait).id, place);
});

test("a timeout leaves no claim behind", async () => {
  const [first, second] = [client(), client()];
  await first.acquire("timeout", { ttl: 30 });
  const began = performance.now();
  await assert.rejects(second.acquire("timeout", { ttl: 30, timeout: 0.3 }), NotAcquired);
  assert.ok(performance.now() - began < 1_500);
  await until(async () => (await servers.who("timeout")).length === 1, "the waiter is gone", 3);
});

test("an abort ends the wait, and leaves no claim behind", async () => {
  const [first, second] = [client(), client()];
  await first.acquire("abort", { ttl: 30 });
  const abort = new AbortController();
  const wait = second.acquire("abort", { ttl: 30, signal: abort.signal });
  await until(async () => (await servers.who("abort")).length === 2, "it waits");
  const reason = new Error("not needed any more");
  abort.abort(reason);
  await assert.rejects(wait, reason);
  await until(async () => (await servers.who("abort")).length === 1, "the waiter is gone", 3);
});

test("an abort while the claim is under way leaves no claim behind", async () => {
  const [first, second] = [client(), client()];
  await (await second.acquire("warm", { ttl: 5 })).release();
  const abort = new AbortController();
  const wait = second.acquire("abort:early", { ttl: 30, signal: abort.signal });
  await new Promise((done) => setImmediate(done)); // it was sent, and not answered
  abort.abort();
  await assert.rejects(wait, { name: "AbortError" });
  await (await first.acquire("abort:early", { ttl: 30, timeout: 3 })).release();
});

test("a lease that an operator breaks is lost at its next renewal", async () => {
  const one = client();
  const lease = await one.acquire("broken", { ttl: 1.5 });
  const lost = new Promise((done) => lease.signal.addEventListener("abort", done));
  await servers.lockfast(servers.told.replicas[1], "break", "broken", "--reason", "a drill", "--yes");
  await lost;
  assert.ok(lease.signal.reason instanceof LeaseLost);
  assert.equal(lease.signal.reason.reason, "gone");
  assert.throws(() => lease.check(), LeaseLost);
  await assert.rejects(lease.release(), /"broken" \(token \d+\) is not held: the engine no longer has it/);
});

test("closing a client releases its leases, and ends its waits", async () => {
  const [first, second] = [client(), client()];
  const lease = await first.acquire("closing", { ttl: 30 });
  const wait = second.acquire("closing", { ttl: 30 });
  await until(async () => (await servers.who("closing")).length === 2, "it waits");
  const ended = assert.rejects(wait, { name: "ClientClosed" });
  await second.close();
  await ended;
  await first.close();
  assert.ok(lease.signal.aborted);
  assert.deepEqual(await servers.who("closing"), []);
  await assert.rejects(first.acquire("closing", { ttl: 30 }), { name: "ClientClosed" });
});

test("many locks at once are all renewed", async () => {
  const one = client();
  const leases = await Promise.all(Array.from({ length: 150 }, (_, at) => one.acquire(`many:${at}`, { ttl: 2 })));
  await new Promise((done) => setTimeout(done, 4_000));
  assert.ok(leases.every((each) => each.held));
  for (const { name, id } of leases) assert.deepEqual((await servers.who(name)).map((each) => each.id), [id]);
  await Promise.all(leases.map((each) => each.release()));
});

test("a suspend of the machine ends leases in time, though timers do not see it", async () => {
  const lease = await client().acquire("suspended", { ttl: 5 });
  const wall = Date.now;
  try {
    Date.now = () => wall() + 60_000; // as after a suspend: the steady clock stood still
    assert.ok(!lease.held);
    assert.ok(lease.signal.aborted);
  } finally {
    Date.now = wall;
  }
  const other = await client().acquire("suspended:2", { ttl: 5 });
  try {
    Date.now = () => wall() + 120_000;
    await until(() => other.signal.aborted, "the client looks at the clock by itself", 2);
  } finally {
    Date.now = wall;
  }
});

test("a wall clock that is set back lengthens no lease, and its steps of a millisecond add up to nothing", () => {
  const clock = new Clock();
  const [began, steady] = [clock.now(), clock.steady()];
  while (clock.steady() < steady + 0.2) clock.now();
  assert.ok(clock.now() - began < clock.steady() - steady + 0.003);
  const wall = Date.now;
  try {
    Date.now = () => wall() - 60_000;
    assert.ok(clock.now() - began >= clock.steady() - steady - 1e-6);
    Date.now = () => wall() - 30_000; // a suspend of half a minute after that
    assert.ok(clock.now() - began > 29);
  } finally {
    Date.now = wall;
  }
});

test("names and times that cannot be are refused before anything is sent", async () => {
  const one = client();
  for (const [name, ttl] of [["", 1], ["x".repeat(513), 1], ["\ud800", 1], ["x", 0.01], ["x", NaN]] as const) {
    await assert.rejects(one.acquire(name, { ttl }), RangeError);
  }
  assert.throws(() => connect("redis://localhost"), TypeError);
});

test("the name of a semaphore is refused, with a clear error", async () => {
  const { child, lines } = servers.python(servers.told.replicas[0], SEMAPHORE);
  assert.equal((await lines.next()).value, "held");
  await assert.rejects(client().acquire("permits", { ttl: 5 }), (error) => {
    assert.ok(error instanceof EngineRefused);
    assert.match(error.message, /"?permits"?'? is in use as a semaphore/);
    return true;
  });
  child.stdin?.end();
});

test("a client whose key is wrong is refused, with a clear error", async () => {
  const { secure, key, ca } = servers.told;
  const wrong = connect(secure, { key: `${key.slice(0, -4)}AAAA`, caFile: ca });
  clients.push(wrong);
  await assert.rejects(wrong.acquire("key", { ttl: 5 }), (error) => {
    assert.ok(error instanceof EngineRefused);
    assert.match(error.message, /it rejects the API key/);
    return true;
  });
});

test("TLS with the certificate of the service's own authority, and with a key", async () => {
  const { secure, key, ca } = servers.told;
  const right = connect(secure.replace("//", `//:${key}@`), { caFile: ca });
  clients.push(right);
  const lease = await right.acquire("tls", { ttl: 5 });
  assert.ok(lease.held);
  await lease.release();
  const distrusting = connect(secure, { key });
  clients.push(distrusting);
  await assert.rejects(distrusting.acquire("tls", { ttl: 5, timeout: 0.1 }), (error) => {
    assert.ok(error instanceof EngineUnavailable);
    assert.match(error.message, /certificate/);
    return true;
  });
});

test("a Python client and this one exclude each other, and describe themselves", async () => {
  const one = client();
  const url = servers.told.replicas[1];
  const { child, lines } = servers.python(url, HOLDER);
  const next = async () => String((await lines.next()).value);
  assert.equal(await next(), "held");
  const [holder] = await servers.who("shared");
  assert.equal(holder?.purpose, "from Python");
  assert.equal(holder?.pid, child.pid);
  await assert.rejects(one.acquire("shared", { ttl: 5, timeout: 0 }), /from Python/);
  const wait = one.acquire("shared", { ttl: 5, purpose: "from TypeScript" });
  await until(async () => (await servers.who("shared")).length === 2, "it waits");
  child.stdin?.write("release\n");
  const lease = await wait;
  assert.ok(holder && lease.token > BigInt(holder.ticket));
  assert.equal(await next(), "released");
  assert.match(await next(), /not acquired: .*from TypeScript.*pid/);
  assert.match(await servers.lockfast(url, "who", "shared"), /from TypeScript/);
  await lease.release();
  assert.equal(await next(), "held again");
});

const SEMAPHORE = `
import lockfast
with lockfast.connect() as client, client.semaphore("permits", 3, ttl=5) as lease:
    print("held", flush=True)
    input()
`.replace("input()", "import sys; sys.stdin.read()");

const HOLDER = `
import lockfast
with lockfast.connect() as client:
    lock = client.lock("shared", ttl=5, purpose="from Python")
    with lock:
        print("held", flush=True)
        input()
    print("released", flush=True)
    try:
        with client.lock("shared", ttl=5, timeout=0):
            pass
    except lockfast.NotAcquired as error:
        print("not acquired:", error, flush=True)
    with lock:
        print("held again", flush=True)
`;
