// The acquisition of a lock: asks, waits for the grant, and leaves no claim behind when it fails.
import { Claim } from "./claim.js";
import { later } from "./clock.js";
import { EngineUnavailable, NotAcquired } from "./errors.js";
import { Lease } from "./lease.js";
import { LONGEST_TTL, LONGEST_WAIT, SHORTEST_TTL } from "./messages.js";
import type { Session } from "./session.js";
import { payload, words } from "./who.js";

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
  const { clock } = session;
  const began = clock.now();
  const until = began + timeout;
  const waitTtl = Math.min(ttl, LONGEST_WAIT);
  const queue = timeout > 0;
  for (let dead = 0; ; ) {
    session.enter();
    signal?.throwIfAborted();
    const claim = new Claim(session, name, ttl, queue, payload(purpose, ttl));
    const phase = () => claim.phase;
    try {
      const standing = await aborted(claim.ask(queue ? until : began + waitTtl), signal);
      if (standing === null) claim.forget(); // its id is dead: try again with another
      else if (!queue && phase() !== "held") {
        claim.blocker = standing.blocker;
        claim.forget();
        throw busy(claim, clock.now() - began);
      } else if (phase() === "waiting") await waited(claim, until - clock.now(), signal);
      signal?.throwIfAborted();
      if (claim.holds()) return new Lease(claim, clock);
      dead = standing === null ? dead + 1 : 0;
      // After the first dead id one more attempt is made: the engine's clock may have moved ahead.
      if (clock.now() >= until && dead === 0) throw busy(claim, clock.now() - began);
      if (clock.now() >= until && dead > 1) {
        throw new EngineUnavailable(
          `"${name}" was not acquired: the engine rejected the request twice, because it arrived too late. ` +
            "Check the server's clock, which may have jumped ahead.",
          false,
        );
      }
      if (dead === 0) claim.giveUp(); // it is gone, or has expired
    } catch (error) {
      claim.giveUp();
      throw error;
    }
  }
}

function check(name: string, ttl: number, timeout: number): void {
  const size = Buffer.byteLength(name);
  if (size < 1 || size > 512) throw new RangeError(`a lock's name must have 1 to 512 bytes in UTF-8, not ${size}`);
  if (Buffer.from(name).toString() !== name) throw new RangeError("a lock's name must be valid Unicode text");
  if (!(ttl >= SHORTEST_TTL && ttl <= LONGEST_TTL)) {
    throw new RangeError(`ttl must be ${SHORTEST_TTL} to ${LONGEST_TTL} seconds, not ${ttl}`);
  }
  if (!(timeout >= 0)) throw new RangeError(`timeout must be 0 or more seconds, not ${timeout}`);
}

function busy(claim: Claim, waited: number): NotAcquired {
  return new NotAcquired(claim.name, waited, claim.blocker ? words(claim.blocker.payload) : "an unknown holder");
}

/** Wait until the claim is granted or gone, the time is over, or the caller has given up. */
async function waited(claim: Claim, seconds: number, signal: AbortSignal | undefined): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const changed = new Promise<void>((done) => {
    claim.changed = done;
    if (seconds < Infinity) timer = later(seconds, done);
  });
  await aborted(changed, signal).finally(() => clearTimeout(timer));
}

/** Wait for `work`, or throw the reason of the signal as soon as it aborts. */
async function aborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await work;
  let stop: () => void = () => {};
  const ended = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason as Error);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
  });
  return await Promise.race([work, ended]).finally(() => signal.removeEventListener("abort", stop));
}
