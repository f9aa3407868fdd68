// A claim on a lock: asks for it, renews it until it is released, lost or given up, and then resigns it.
import { later, sleep, within } from "./clock.js";
import { EngineUnavailable, LeaseLost, type Loss } from "./errors.js";
import { words } from "./holder.js";
import type { Asked, Stood } from "./messages.js";
import type { Session } from "./session.js";

const LONGEST_WAIT = 10; // seconds for which the engine keeps a waiter that does not renew
const DRIFT = 0.01; // how much faster than ours the engine's clock may run, as a fraction
const BEATS = 3; // renewals per ttl
const IO = 5; // seconds after which an unanswered request is given up
const LAST = 0.25; // seconds that the service gets to answer, even if the timeout is shorter
const SHORT = 2; // seconds: the replica does not collect the renewals of claims with a shorter life
const WATCH = 1; // seconds after which the clock is looked at again, because the machine may have slept
const SOON = 0.02; // seconds at least between two requests for a claim of which nothing is new
const AGAIN = 0.25; // seconds until a resignation is repeated
const WELCOME = 0.1; // seconds by which the first renewal of a woken holder lets its work go first

/** What the engine may know of it. `leaving`: it is being resigned. `ended`: nothing is left of it there. */
type Phase = "asking" | "waiting" | "held" | "leaving" | "ended";

/** A lock that this process holds until it is released or lost: what a program uses of a claim. */
type Shown = "name" | "id" | "token" | "signal" | "held" | "validUntil" | "check" | "signed" | "release";
export type Lease = Pick<Claim, Shown>;

export class Claim {
  readonly name: string;
  phase: Phase = "asking";
  /** Why the latest request has failed. Undefined: it was answered. */
  error: Error | undefined;
  /** Whether the engine has rejected its id, because the claim arrived too late. */
  dead = false;
  /** Who is first in the queue, in words. */
  holder = "an unknown holder";
  /** Resolves when it is granted, or will not be. */
  readonly settled: Promise<void>;
  /** Resolves when nothing is left of it in the engine. */
  ended: Promise<void> = Promise.resolve();
  #settle: () => void = () => {};
  #loss: Loss | undefined;
  readonly #lost = new AbortController();
  /** Aborts when the lease is lost. Its reason is a `LeaseLost`. */
  readonly signal: AbortSignal = this.#lost.signal;
  readonly #asked: Asked;
  readonly #waitTtl: number;
  /** When it fails unless there is an answer. */
  readonly #answerBy: number;
  /** It is valid until then. */
  #until = 0;
  /** Requests that were sent, and not answered. */
  readonly #unanswered = { claim: 0, resign: 0 };
  /** When the engine said that it is granted. Infinity: it has not. */
  #granted = Infinity;
  /** Whether it was woken and not renewed since. */
  #woken = false;
  /** When to ask for it, or to renew it. */
  #due: number;
  #busy = false;
  #timer: NodeJS.Timeout | undefined;

  /** `patience`: when to stop waiting. */
  constructor(
    private readonly session: Session,
    what: { name: string; ttl: number; queue: boolean; payload: string },
    private readonly patience: number,
  ) {
    this.name = what.name;
    this.#asked = { ...what, id: "", not_after: null, ticket: 0, granted: false };
    this.settled = new Promise((done) => (this.#settle = done));
    this.#waitTtl = Math.min(what.ttl, LONGEST_WAIT);
    this.#due = this.#now();
    const longest = what.queue ? Math.max(patience - this.#due, LAST) : Infinity;
    this.#answerBy = this.#due + Math.min(longest, this.#waitTtl);
    this.#tick();
  }

  /** The id of the claim, as `lockfast who` shows it. */
  get id(): string {
    return this.#asked.id;
  }

  /** The fencing token: higher than that of every earlier lease of the name. */
  get token(): bigint {
    return BigInt(this.#asked.ticket);
  }

  /** Until when it is valid by its latest renewal, in milliseconds of `performance.now()`. */
  get validUntil(): number {
    return performance.now() + this.#left * 1e3;
  }

  /** Whether it is held at this moment. It is computed from the clock, so also after a pause. */
  get held(): boolean {
    if (this.phase === "held" && this.#left <= 0) this.lose(this.error ? "unreachable" : "expired");
    return this.phase === "held";
  }

  /** Throw `LeaseLost` unless the lease is held. */
  check(): void {
    if (!this.held) throw new LeaseLost(this.name, this.token, this.#loss ?? "expired");
  }

  /**
   * Return a signed token, for a resource that verifies it by the service's public keys: see
   * `verify`. `audience` is whom it is for, such as the URL of the resource.
   */
  async signed(audience: string): Promise<string> {
    this.check();
    const deadline = Math.min(this.#now() + IO, this.#until);
    const line = await this.session.connected(deadline);
    return (await line.ask({ t: "sign", ask: this.#asked, audience }, "signed", deadline)).token;
  }

  /**
   * Release the lock. Throws `LeaseLost` if the lease was lost before. After `EngineUnavailable`, the
   * lock may still be taken: the client goes on trying, and you can call this again.
   */
  async release(): Promise<void> {
    if (this.held) this.giveUp();
    if (this.#loss === "released") await within(this.ended, Math.min(this.#asked.ttl, IO));
    if (this.#loss !== "released") this.check();
    if (this.phase === "ended") return;
    throw new EngineUnavailable(`"${this.name}" may still be taken: ${this.error?.message}`, true);
  }

  /** Lose the lease, resign it, in case the engine still has it, and tell its holder. */
  lose(loss: Loss): void {
    this.#loss = loss;
    this.#leave();
    this.#lost.abort(new LeaseLost(this.name, this.token, loss));
  }

  /** Give it up without waiting: it is resigned until the service confirms that. */
  giveUp(): void {
    if (!this.#alive) return;
    this.error ??= new EngineUnavailable(`"${this.name}": the service has not answered in time`, true);
    if (this.phase === "held") this.#loss = "released";
    this.#leave();
  }

  /** Forget it. */
  end(): void {
    this.phase = "ended";
    this.session.claims.delete(this.id);
    this.#settle();
  }

  /** Take a push. It may be lost, early or doubled, and may overtake the reply to the claim. */
  wake(granted: boolean): void {
    this.#woken = true;
    if (granted) this.#granted = this.#now();
    this.#start();
    // The engine still counts the shorter wait_ttl, so renew soon. Without a grant: ask what is the matter.
    this.#appoint(granted ? Math.min(WELCOME, this.#left / 10) : 0);
  }

  /** Whether it was not released, lost or given up. */
  get #alive(): boolean {
    return this.phase !== "leaving" && this.phase !== "ended";
  }

  /** For how many seconds it is valid without another renewal. */
  get #left(): number {
    return this.#until - this.#now();
  }

  /** Do what is due, and look again when the next thing is. */
  #tick(): void {
    clearTimeout(this.#timer);
    const now = this.#now();
    let end = this.#until;
    if (this.phase === "asking") end = this.#answerBy;
    if (this.phase === "waiting") end = Math.min(this.patience, end + this.#waitTtl); // or has expired there
    if (!this.held && now >= end) this.giveUp();
    if (!this.#alive) return;
    if (now >= this.#due && !this.#busy) void this.#ask();
    const next = Math.min(this.#busy ? Infinity : this.#due, end, now + WATCH);
    this.#timer = later(next - now, () => this.#tick());
  }

  #appoint(seconds: number): void {
    this.#due = Math.min(this.#due, this.#now() + seconds);
    this.#tick();
  }

  /** Ask for it, or renew it. */
  async #ask(): Promise<void> {
    this.#busy = true;
    this.#due = Infinity;
    let again = Math.min(this.#waitTtl / 12, 1) * (0.5 + Math.random() / 2);
    try {
      again = await (this.phase === "asking" ? this.#claim() : this.#renew());
    } catch (error) {
      const repeated = this.error !== undefined;
      this.error = error as Error;
      if (this.held && !repeated) this.session.warn(`a renewal of "${this.name}" has failed: ${error}`);
      const hopeless = !(error instanceof EngineUnavailable) || (repeated && !this.#asked.queue);
      if (this.phase === "asking" && hopeless) this.giveUp();
    }
    this.#busy = false;
    this.#appoint(again);
  }

  async #claim(): Promise<number> {
    const deadline = Math.min(this.#answerBy, this.#now() + IO);
    const line = await this.session.connected(deadline);
    this.session.enter();
    if (!this.#alive) return Infinity;
    this.#asked.id ||= this.session.identity.newId();
    this.session.claims.set(this.id, this);
    this.#asked.not_after ??= this.session.engineTime(this.#waitTtl); // it is fixed once, and never changes
    const sent = this.#now();
    const reply = line.ask({ t: "claim", asks: [this.#asked] }, "said", deadline);
    const { results } = await this.#counted("claim", reply);
    // A claim without `not_after` is not made. But the reply has told the engine's time.
    return results === null && this.#asked.not_after === null ? SOON : this.#read(sent, results);
  }

  async #renew(): Promise<number> {
    const early = this.#left > this.#waitTtl / 2; // then leave time for two more attempts
    const deadline = this.#now() + Math.min(this.#waitTtl / (early ? 6 : 3), IO);
    const line = await this.session.connected(deadline);
    const urgent = this.error !== undefined || this.#woken || this.#waitTtl < SHORT;
    const sent = this.#now();
    const reply = await line.ask({ t: "renew", asks: [this.#asked], urgent }, "said", deadline);
    return this.#read(sent, reply.results);
  }

  /** Take a reply to a request that was sent then. Return after how many seconds to ask again. */
  #read(sent: number, standing: Stood | null): number {
    const held = this.held; // first, because a late reply does not revive a lease
    if (!this.#alive) return Infinity;
    this.error = undefined;
    this.#woken = false;
    if (standing?.blocker) this.holder = words(standing.blocker.payload);
    if (standing === null || standing.ticket === 0) {
      this.dead = standing === null && this.phase === "asking";
      if (held) this.lose("gone");
      else this.#leave();
      return Infinity;
    }
    // The engine keeps it for `left` seconds, counted from before the request was sent, and not longer
    // than for its ttl, whatever was changed on the way.
    this.#until = Math.max(this.#until, sent + Math.min(standing.left, this.#asked.ttl) * (1 - DRIFT));
    if (!held) {
      this.phase = "waiting";
      this.#asked.ticket = standing.ticket;
      if (standing.granted) this.#granted = sent;
      // Sent after the grant was pushed, and the reply says "waiting": the engine has lost the grant.
      else if (this.#granted <= sent) this.#granted = Infinity;
      this.#start();
    }
    if (standing.granted) this.#due = Infinity; // a wake that came meanwhile says nothing new
    // A holder that crashes sends no wake, so the first waiter looks by itself.
    return Math.max(Math.min((this.#until - sent) / BEATS, standing.recheck ?? Infinity), SOON);
  }

  /** Hold the lock, if it was granted and the last renewal is still valid. */
  #start(): void {
    if (this.phase !== "waiting" || this.#granted === Infinity || this.#left <= 0) return;
    this.phase = "held";
    this.#asked.granted = true;
    this.#settle();
  }

  /** Resign it, unless no copy can be in the engine. */
  #leave(): void {
    if (!this.#alive) return;
    const nothing = this.phase === "asking" && this.#unanswered.claim === 0;
    this.phase = "leaving";
    this.#settle();
    if (nothing) this.end();
    else this.ended = this.#resign();
  }

  /** Resign it until the service confirms that, or the engine has forgotten it. */
  async #resign(): Promise<void> {
    const forgotten = Math.max(this.#until, this.#now() + this.#waitTtl) + this.#asked.ttl;
    while (this.phase === "leaving" && this.#now() < forgotten) {
      const deadline = this.#now() + Math.min(this.#asked.ttl, IO);
      try {
        const line = await this.session.connected(deadline);
        // A copy without an answer may still arrive. Then the engine needs a tombstone that rejects it.
        const doubt = this.#unanswered.claim > 0;
        const first = this.#unanswered.resign === 0;
        const reply = line.ask({ t: "resign", asks: [this.#asked], doubt }, "gone", deadline);
        const { results } = await this.#counted("resign", reply);
        if (!results && first && this.#loss === "released" && this.#left > 0) this.#loss = "gone";
        break;
      } catch (error) {
        this.error = error as Error;
        await sleep(AGAIN);
      }
    }
    this.end();
  }

  /** Count a request as unanswered until there is a reply, or it is certain that it was not applied. */
  async #counted<R>(kind: "claim" | "resign", reply: Promise<R>): Promise<R> {
    this.#unanswered[kind]++;
    try {
      const found = await reply;
      this.#unanswered[kind]--;
      return found;
    } catch (error) {
      if (!(error instanceof EngineUnavailable && error.sent)) this.#unanswered[kind]--;
      throw error;
    }
  }

  #now(): number {
    return this.session.clock.now();
  }
}
