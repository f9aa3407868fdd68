// Signed tokens: of the service, and verified by the client's own function.
import assert from "node:assert/strict";
import { generateKeyPairSync, sign } from "node:crypto";
import { readFileSync } from "node:fs";
import { get } from "node:https";
import { after, before, test } from "node:test";
import { connect, EngineRefused, InvalidToken, type KeySet, LeaseLost, verify } from "../src/index.js";
import { Servers } from "./servers.js";

const AUDIENCE = "https://billing.example.com";
let servers: Servers;
before(async () => (servers = await Servers.start()));
after(async () => await servers.stop());

/** Read the service's public keys. */
async function keys(): Promise<KeySet> {
  const url = `${servers.told.secure.replace("lockfasts:", "https:")}/.well-known/jwks.json`;
  const text = await new Promise<string>((done, failed) => {
    get(url, { ca: readFileSync(servers.told.ca) }, (reply) => {
      let read = "";
      reply.on("data", (piece) => (read += String(piece)));
      reply.on("end", () => done(read));
    }).on("error", failed);
  });
  return JSON.parse(text) as KeySet;
}

test("a signed token proves the lease, and nothing else", async () => {
  const { secure, key, ca } = servers.told;
  const client = connect(secure, { key, caFile: ca });
  const lease = await client.acquire("invoice:42", { ttl: 30 });
  const signed = await lease.signed(AUDIENCE);
  const known = await keys();
  const proven = verify(signed, known, "invoice:42", AUDIENCE);
  assert.equal(proven.token, lease.token);
  assert.equal(proven.id, lease.id);
  assert.equal(proven.subject, "tests");
  const [head, body, signature] = signed.split(".") as [string, string, string];
  const other = Buffer.from(JSON.stringify({ lock: "invoice:42", aud: AUDIENCE, token: "9" })).toString("base64url");
  const none = Buffer.from(JSON.stringify({ alg: "none", typ: "fencing+jwt" })).toString("base64url");
  for (const [forged, lock, audience] of [
    [signed, "invoice:43", AUDIENCE],
    [signed, "invoice:42", "https://other"],
    [`${head}.${other}.${signature}`, "invoice:42", AUDIENCE],
    [`${none}.${body}.${signature}`, "invoice:42", AUDIENCE],
    [`${head}.${body}.AAAA`, "invoice:42", AUDIENCE],
    ["", "invoice:42", AUDIENCE],
    ["a.b.c", "invoice:42", AUDIENCE],
    ["bnVsbA.bnVsbA.AAAA", "invoice:42", AUDIENCE],
  ] as const) {
    assert.throws(() => verify(forged, known, lock, audience), InvalidToken);
  }
  assert.throws(() => verify(signed, { keys: [] }, "invoice:42", AUDIENCE), InvalidToken);
  await lease.release();
  await assert.rejects(lease.signed(AUDIENCE), LeaseLost);
  await client.close();
});

test("a token that is signed, and is no writer's, proves nothing", () => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const known = { keys: [{ ...publicKey.export({ format: "jwk" }), kid: "1" }] };
  const whole = { lock: "x", aud: AUDIENCE, token: "7", id: "a".repeat(32), iat: Math.floor(Date.now() / 1e3) };
  const made = (more: object): string => {
    const parts = [{ alg: "EdDSA", typ: "fencing+jwt", kid: "1" }, { ...whole, ...more }];
    const text = parts.map((part) => Buffer.from(JSON.stringify(part)).toString("base64url")).join(".");
    return `${text}.${sign(null, Buffer.from(text), privateKey).toString("base64url")}`;
  };
  assert.equal(verify(made({}), known, "x", AUDIENCE).token, 7n);
  for (const more of [
    { floor: "7" },
    { floor: null },
    { token: 7 },
    { token: "07" },
    { token: "7\n" },
    { token: "9007199254740992" },
    { id: "A".repeat(32) },
    { id: "a" },
    { iat: 1e300 },
    { iat: null },
    { sub: ["x"] },
    { lock: ["x"] },
    { aud: [AUDIENCE] },
  ]) {
    assert.throws(() => verify(made(more), known, "x", AUDIENCE), InvalidToken, JSON.stringify(more));
  }
});

test("a service without a key signs nothing", async () => {
  const client = connect(servers.told.replicas[0]);
  const lease = await client.acquire("unsigned", { ttl: 30 });
  await assert.rejects(lease.signed(AUDIENCE), EngineRefused);
  await client.close();
});
