// A lease: a lock that this process holds until it is released or lost.
import { EventEmitter } from "node:events";
import type { Claim } from "./claim.js";
import type { Clock } from "./clock.js";
import { LeaseLost } from "./errors.js";

/** Emits `lost`, with a `LeaseLost`, once and at most once. */
export class Lease extends EventEmitter {
  readonly name: string;
  /** The fencing token: higher than that of every earlier lease of the name. */
  readonly token: bigint;
  /** Aborts when the lease is lost. Its reason is a `LeaseLost`. */
  readonly signal: AbortSignal;
  readonly #claim: Claim;

  /** Take over a claim that is held. Only `acquire` makes leases. */
  constructor(claim: Claim, private readonly clock: Clock) {
    super();
    this.name = claim.name;
    this.token = BigInt(claim.ticket);
    this.#claim = claim;
    const abort = new AbortController();
    this.signal = abort.signal;
    claim.lost = (error) => {
      // An error of a listener must not stop the heart. Node reports it as uncaught.
      queueMicrotask(() => this.emit("lost", error));
      abort.abort(error);
    };
  }

  override on(event: "lost", listener: (error: LeaseLost) => void): this {
    return super.on(event, listener);
  }

  /** The id of the claim, as `who` shows it. */
  get id(): string {
    return this.#claim.id;
  }

  /** The token for systems without 64-bit integers, such as JSON. */
  get tokenText(): string {
    return String(this.token);
  }

  /** Whether the lease is held at this moment. It is computed from the clock, so also after a pause. */
  get held(): boolean {
    return this.#claim.holds();
  }

  /** For how many seconds the lease is valid without another renewal. */
  get remaining(): number {
    return this.held ? Math.max(this.#claim.until - this.clock.now(), 0) : 0;
  }

  /** Until when it is valid by its latest renewal, in milliseconds of `performance.now()`. */
  get validUntil(): number {
    return performance.now() + (this.#claim.until - this.clock.now()) * 1e3;
  }

  /** Throw `LeaseLost` unless the lease is held. */
  check(): void {
    if (!this.held) throw new LeaseLost(this.name, this.token, this.#claim.loss ?? "expired");
  }

  /**
   * Return a signed token, for a resource that verifies it by the service's public keys: see
   * `verify`. `audience` is whom it is for, such as the URL of the resource.
   */
  async signed(audience: string): Promise<string> {
    this.check();
    return await this.#claim.signed(audience);
  }

  /**
   * Release the lock. Throws `LeaseLost` if the lease was lost before. After `EngineUnavailable`, the
   * lock may still be taken: the client goes on trying, and you can call this again.
   */
  async release(): Promise<void> {
    await this.#claim.release();
  }
}
