// The acquisition of a lock: waits for a claim to be granted, and leaves none behind when it fails.
import { Claim, type Lease } from "./claim.js";
import { EngineUnavailable, NotAcquired } from "./errors.js";
import { description } from "./holder.js";
import type { Session } from "./session.js";

const LATE = "the engine rejected it twice, because it arrived too late. Check the clock of its server";

/** How to acquire a lock. Times are in seconds. */
export interface Options {
  /** For how long the lock stays taken if this process crashes. The client renews the lease. */
  ttl: number;
  /** How long to wait. 0: do not wait in the queue. By default, as long as it takes. */
  timeout?: number | undefined;
  /** Ends the wait. The error is the signal's reason. */
  signal?: AbortSignal | undefined;
  /** What the lock is for. Others see it. */
  purpose?: string | undefined;
}

/** Acquire a lock. Every exit without a lease gives the claim up, whatever was sent. */
export async function acquire(session: Session, name: string, options: Options): Promise<Lease> {
  const { ttl, timeout = Infinity, signal, purpose = "" } = options;
  check(name, ttl, timeout);
  const until = session.clock.now() + timeout;
  for (let dead = false; ; ) {
    session.enter();
    signal?.throwIfAborted();
    const what = { name, ttl, queue: timeout > 0, payload: description(purpose, ttl) };
    const claim = new Claim(session, what, until);
    const giveUp = () => claim.giveUp();
    signal?.addEventListener("abort", giveUp);
    await claim.settled;
    signal?.removeEventListener("abort", giveUp);
    if (claim.held && !signal?.aborted) return claim;
    claim.giveUp();
    session.enter();
    signal?.throwIfAborted();
    if (claim.token === 0n && claim.error !== undefined) throw claim.error;
    const over = session.clock.now() >= until;
    // After the first dead id one more attempt is made: the engine's clock may have moved ahead.
    if (over && !claim.dead) throw new NotAcquired(name, timeout, claim.holder);
    if (over && dead) throw new EngineUnavailable(`"${name}" was not acquired: ${LATE}`, false);
    dead = claim.dead;
  }
}

function check(name: string, ttl: number, timeout: number): void {
  const bytes = Buffer.from(name);
  if (bytes.length < 1 || bytes.length > 512 || bytes.toString() !== name) {
    throw new RangeError("a lock's name must be valid Unicode text with 1 to 512 bytes in UTF-8");
  }
  if (!(ttl >= 0.05 && ttl <= 86_400)) throw new RangeError(`ttl must be 0.05 to 86400 seconds, not ${ttl}`);
  if (!(timeout >= 0)) throw new RangeError(`timeout must be 0 or more seconds, not ${timeout}`);
}
