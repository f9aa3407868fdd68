// What happens to leases when replicas are paused, killed or restarted.
import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { type Client, connect, LeaseLost, type Lease } from "../src/index.js";
import { Servers, until } from "./servers.js";

let servers: Servers;
const clients: Client[] = [];
before(async () => (servers = await Servers.start()));
after(async () => await servers.stop());
afterEach(async () => {
  await Promise.all(clients.splice(0).map((each) => each.close()));
});

function client(replicas: readonly string[] = servers.told.replicas): Client {
  const made = connect(replicas, { log: () => {} });
  clients.push(made);
  return made;
}

/** Let 20 clients, of which some use each replica, hold a lock. */
async function held(prefix: string, ttl: number): Promise<Lease[]> {
  const found: Lease[] = [];
  for (let at = 0; at < 20; at++) {
    found.push(await client().acquire(`${prefix}:${at}`, { ttl }));
  }
  return found;
}

/** Check that all leases are still held, by the engine's word too, and that the tokens are the same. */
async function kept(found: Lease[], ttl: number): Promise<void> {
  await new Promise((done) => setTimeout(done, ttl * 1.5e3));
  for (const lease of found) {
    lease.check();
    const [holder] = await servers.who(lease.name);
    assert.equal(holder?.ticket, String(lease.token));
    await lease.release();
  }
}

test("leases are kept with the same tokens when one of two replicas is killed", async () => {
  const found = await held("killed", 3);
  await servers.do("kill", 0);
  await kept(found, 3);
  await servers.do("start", 0);
});

test("leases are kept when one of two replicas is paused, and when it goes on", async () => {
  const found = await held("paused", 3);
  await servers.do("pause", 1);
  await new Promise((done) => setTimeout(done, 4_000));
  await servers.do("resume", 1);
  await kept(found, 3);
});

test("leases are kept when one replica after the other is restarted", async () => {
  const found = await held("drained", 3);
  for (const replica of [0, 1] as const) {
    const began = performance.now();
    await servers.do("drain", replica); // it returns when all clients have left, or were cut off after 5 seconds
    assert.ok(performance.now() - began < 4_500, "clients have not left");
    await servers.do("start", replica);
  }
  await kept(found, 3);
});

test("a waiter gets the lock though its replica was killed", async () => {
  const lease = await client([servers.told.replicas[1]]).acquire("waiter", { ttl: 30 });
  const waits = Array.from({ length: 8 }, () => client().acquire("waiter", { ttl: 3 }));
  await until(async () => (await servers.who("waiter")).length === 9, "they wait");
  await servers.do("kill", 0);
  await new Promise((done) => setTimeout(done, 1_000));
  await lease.release();
  for (const each of waits) void each.then((granted) => granted.release());
  await Promise.all(waits);
  await servers.do("start", 0);
});

test("a lease is lost in time when the only replica is paused, and nobody else got the lock before", async () => {
  const one = client([servers.told.replicas[0]]);
  const other = client([servers.told.replicas[1]]);
  const lease = await one.acquire("lost", { ttl: 2 });
  const lost = new Promise<number>((done) => {
    lease.signal.addEventListener("abort", () => done(performance.now()));
  });
  await servers.do("pause", 0);
  const until = lease.validUntil;
  const taken = other.acquire("lost", { ttl: 2 }).then(() => performance.now());
  const at = await lost;
  assert.ok(Math.abs(at - until) < 150, `lost ${at - until} ms after its end`);
  assert.ok((await taken) > at);
  assert.ok(lease.signal.reason instanceof LeaseLost);
  assert.equal(lease.signal.reason.reason, "unreachable");
  await servers.do("resume", 0);
});

test("a copy of a claim that lay in a paused replica acquires nothing after the release", async () => {
  for (let attempt = 0, moved = false; !moved; attempt++) {
    const one = client();
    await (await one.acquire("warm", { ttl: 5 })).release();
    await servers.do("pause", 0);
    const began = performance.now();
    const lease = await one.acquire(`ghost:${attempt}`, { ttl: 20 });
    moved = performance.now() - began > 1_000; // it was at the paused replica, which has a copy of the claim
    await lease.release();
    await servers.do("resume", 0);
    await new Promise((done) => setTimeout(done, 1_000));
    assert.deepEqual(await servers.who(`ghost:${attempt}`), []);
    assert.ok(attempt < 12);
  }
});

test("a release that was not answered is repeated until the lock is free", async () => {
  const one = client([servers.told.replicas[0]]);
  const lease = await one.acquire("unreleased", { ttl: 30 });
  await servers.do("pause", 0);
  await assert.rejects(lease.release(), { name: "EngineUnavailable" });
  await servers.do("resume", 0);
  const other = client([servers.told.replicas[1]]);
  await (await other.acquire("unreleased", { ttl: 5, timeout: 5 })).release();
});

test("an event loop that is blocked for longer than the ttl loses the lease, and says so afterwards", async () => {
  const lease = await client().acquire("blocked", { ttl: 0.5 });
  for (const end = performance.now() + 800; performance.now() < end; ); // work that never yields
  assert.ok(!lease.held);
  assert.throws(() => lease.check(), /"blocked" \(token \d+\) is not held: it expired in this process/);
  assert.ok(lease.signal.aborted);
});
