// A worker of tests/robustness: several hands use locks until SIGTERM, and record what they were told.
import { closeSync, openSync, writeSync } from "node:fs";
import { parseArgs } from "node:util";
import { type Client, connect, EngineUnavailable, type Lease, type LeaseLost, LockfastError, NotAcquired } from "../src/index.js";

const WORKLOADS: Record<string, { names: number; rest: number; hold: number; long: number }> = {
  lock: { names: 60, rest: 0.003, hold: 0.001, long: 0.002 },
  queue: { names: 2, rest: 0.01, hold: 0.004, long: 0.01 },
  held: { names: 3, rest: 0.003, hold: 0, long: 0 }, // for several ttls on end
};
const options = Object.fromEntries(
  ["name", "url", "workloads", "hands", "ttl", "seed", "history"].map((each) => [each, { type: "string" as const }]),
);
const asked = parseArgs({ options }).values as Record<string, string>;
const name = asked["name"] ?? "";
const ttl = Number(asked["ttl"]);
const history = openSync(asked["history"] ?? "", "a");
let stopping = false;
process.on("SIGTERM", () => (stopping = true));
process.on("SIGUSR1", () => {}); // what a storm of signals does

/** Seconds of CLOCK_MONOTONIC, as in all histories. */
function now(): number {
  return Number(process.hrtime.bigint()) / 1e9;
}

function record(kind: string, lock: string, began: number, outcome: string, more: object): void {
  const said = { client: name, kind, name: lock, began, ended: now(), outcome, ...more };
  writeSync(history, `${JSON.stringify(said)}\n`);
}

function holding(kind: string, lease: Lease, began: number, outcome = "ok", value = ""): void {
  const until = now() + (lease.validUntil - performance.now()) / 1e3;
  record(kind, lease.name, began, outcome, { token: Number(lease.token), id: lease.id, until, ...(value && { value }) });
}

function outcomeOf(error: unknown): string {
  if (!(error instanceof LockfastError)) throw error;
  return error instanceof EngineUnavailable && error.sent ? "unknown" : "no";
}

async function sleep(seconds: number): Promise<void> {
  await new Promise((done) => setTimeout(done, seconds * 1e3));
}

/** Numbers from 0 to 1 that follow from the seed. */
function dice(seed: string): () => number {
  let state = [...seed].reduce((hash, each) => Math.imul(hash ^ each.charCodeAt(0), 0x01000193), 0x811c9dc5);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

async function taken(client: Client, lock: string, random: () => number): Promise<Lease | undefined> {
  const began = now();
  const luck = random();
  const timeout = luck < 0.8 ? 3 * ttl + 2 : luck < 0.9 ? 0.05 : 0;
  try {
    const lease = await client.acquire(lock, { ttl, timeout });
    holding("acquire", lease, began);
    lease.signal.addEventListener("abort", () => {
      const { reason } = lease.signal.reason as LeaseLost;
      holding("lost", lease, now(), "ok", reason.toUpperCase());
    });
    return lease;
  } catch (error) {
    const busy = error instanceof NotAcquired;
    record("acquire", lock, began, outcomeOf(error), { value: busy ? "busy" : String(error) });
    if (!busy) await sleep(0.02 + 0.08 * random());
    return undefined;
  }
}

async function once(client: Client, kind: string, random: () => number): Promise<void> {
  const { names, rest, hold, long } = WORKLOADS[kind] ?? { names: 1, rest: 0, hold: 0, long: 0 };
  const lease = await taken(client, `${kind}:${Math.floor(random() * names)}`, random);
  if (lease !== undefined) {
    const usual = 2 * hold * random();
    await sleep(kind === "held" ? (1.4 + 0.6 * random()) * ttl : random() < long ? 1.5 * ttl : usual);
    const began = now();
    holding("release", lease, began, "unknown");
    const outcome = await lease.release().then(() => "ok", outcomeOf);
    holding("release", lease, began, outcome);
  }
  await sleep(2 * rest * random());
}

async function hand(client: Client, kind: string, random: () => number): Promise<void> {
  while (!stopping) await once(client, kind, random);
}

const client = connect(asked["url"] ?? "", { log: (text) => console.error(now().toFixed(4), text) });
const kinds = (asked["workloads"] ?? "").split(",");
await Promise.all(
  Array.from({ length: Number(asked["hands"]) }, (_, at) =>
    hand(client, kinds[at % kinds.length] ?? "", dice(`${asked["seed"]} ${name} ${at}`)),
  ),
);
await client.close();
closeSync(history);
