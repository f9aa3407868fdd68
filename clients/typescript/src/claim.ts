// A claim on a lock: asks for it, and renews it until it is released, lost or given up, and then resigns it.
import { later, longer, sleep } from "./clock.js";
import { EngineUnavailable, LeaseLost, type Loss } from "./errors.js";
import { failure } from "./line.js";
import { LONGEST_WAIT, type Reply, type Stood, type Wake } from "./messages.js";
import type { Session } from "./session.js";

const DRIFT = 0.01; // how much faster than ours the engine's clock may run, as a fraction
const BEATS = 3; // renewals per ttl
const IO = 5; // seconds after which an unanswered request is given up
const LAST = 0.25; // seconds before its end at which an acquisition asks a last time
const SHORT = 2; // seconds: the replica does not collect the renewals of claims with a shorter life
const WATCH = 1; // seconds after which the clock is looked at again, because the machine may have slept
const AGAIN = 0.25; // seconds until a resignation is repeated
const WELCOME = 0.1; // seconds by which the first renewal of a woken holder lets its work go first,
const PLENTY = 1; // if the claim is valid for at least this many seconds

/** What the engine may know of it. `leaving`: it is to be resigned. `ended`: nothing is left of it there. */
export type Phase = "asking" | "waiting" | "held" | "leaving" | "ended";

export class Claim {
  /** Empty until there is a connection, because the replica tells the first digits. */
  id = "";
  phase: Phase = "asking";
  ticket = 0;
  /** It is valid until then. */
  until = 0;
  loss: Loss | undefined;
  blocker: Stood["blocker"] = null;
  /** Is called when it is granted, gone or given up. */
  changed: () => void = () => {};
  /** Is called when the lease is lost. */
  lost: (error: LeaseLost) => void = () => {};
  /** Copies that were sent and not answered. If there are any, a resignation must leave a tombstone. */
  #copies = 0;
  /** When the last request was sent that extended it. */
  #kept = 0;
  /** Whether the last renewal was not answered. */
  #unsure = false;
  /** When the engine reported the grant. Infinity: it has not. */
  #pushed = Infinity;
  /** Whether it was woken and not renewed since. */
  #woken = false;
  /** When to renew it, or to resign it. */
  #due = Infinity;
  #busy = false;
  #ring: () => void = () => {};
  /** When the engine has forgotten it, even if no resignation is answered. */
  #over = Infinity;
  /** `not_after`, by the engine's clock. It is fixed once, and never changes. */
  #fixed: number | null = null;
  readonly #notAfter: number;
  readonly #steady: number;
  readonly #waitTtl: number;

  constructor(
    private readonly session: Session,
    readonly name: string,
    readonly ttl: number,
    private readonly queue: boolean,
    private readonly payload: Buffer,
  ) {
    this.#waitTtl = Math.min(ttl, LONGEST_WAIT);
    this.#notAfter = session.clock.now() + this.#waitTtl;
    this.#steady = session.clock.steady() + this.#waitTtl;
  }

  /** Ask for the lock until the service answers, at the latest until `end`. Return null if its id is dead. */
  async ask(end: number): Promise<Stood | null> {
    for (let pause = 0; ; pause = longer(pause)) {
      const sent = this.#now();
      try {
        const latest = Math.min(sent + Math.min(this.#waitTtl, IO), Math.max(end, sent + LAST));
        return await this.#ask(sent, Math.min(latest, this.#notAfter));
      } catch (error) {
        const left = Math.min(end, this.#notAfter) - this.#now();
        const over = left <= (pause ? LAST : 0) || (pause > 0 && !this.queue) || this.phase !== "asking";
        if (!(error instanceof EngineUnavailable) || over) throw error;
        await sleep(Math.min(pause, Math.max(left - LAST, 0)));
      }
    }
  }

  /** Return whether it is held at this moment. If its time is over, record the loss first. */
  holds(): boolean {
    if (this.phase === "held" && this.#now() >= this.until) this.lose(this.#unsure ? "unreachable" : "expired");
    return this.phase === "held";
  }

  /** Lose the lease, tell its holder, and resign it, in case the engine still has it. */
  lose(reason: Loss): void {
    this.loss = reason;
    this.#leave();
    this.lost(new LeaseLost(this.name, BigInt(this.ticket), reason));
  }

  /** Give it up without waiting: it is resigned until the service confirms that. Never throws. */
  giveUp(): void {
    this.loss ??= "released";
    if (this.phase === "asking" && this.#copies === 0) this.end();
    if (this.phase === "ended") return;
    this.#leave();
    this.session.transport.post({ t: "resign", within: IO, asks: [this.#asked()], doubt: true });
  }

  /** Forget it, because the engine does not have it. But a copy of it may still arrive there. */
  forget(): void {
    if (this.#copies > 0) this.giveUp();
    else this.end();
  }

  /** Forget it. */
  end(): void {
    this.phase = "ended";
    this.session.claims.delete(this.id);
    this.changed();
    this.#ring();
  }

  /** Release the lease. Throws `LeaseLost` if it was lost before. If it fails, it may be repeated. */
  async release(): Promise<void> {
    const began = this.#now();
    const first = this.holds();
    if (first) {
      this.loss = "released";
      this.phase = "leaving";
      this.#due = began + this.#waitTtl / BEATS; // in case this takes longer
    }
    if (this.loss === "released" && this.phase === "leaving") {
      try {
        const removed = await this.#removed(began + Math.min(this.ttl, IO));
        // It says nothing if it was resigned at the same time, or has expired meanwhile.
        if (!removed && first && this.#over === Infinity && this.#now() < this.until) this.loss = "gone";
        this.end();
      } catch (error) {
        this.giveUp();
        throw error;
      }
    }
    if (this.loss !== "released") throw await this.session.explained(this);
  }

  /** Resign it once. Return whether the engine has confirmed that. */
  async resigned(deadline: number): Promise<boolean> {
    try {
      await this.#send("resign", "gone", deadline, { doubt: true });
      this.end();
    } catch {
      this.#appoint(this.#now() + AGAIN);
    }
    return this.phase === "ended";
  }

  /** Take a push. It may be lost, early or doubled, and may overtake the reply to the claim. */
  wake(wake: Wake): void {
    const now = this.#now();
    this.#woken = true;
    if (wake.granted) this.#pushed = now;
    this.#start();
    const plenty = wake.granted && this.until - now > PLENTY;
    // The engine still counts the shorter wait_ttl, so renew soon. Without `granted`: ask what is the matter.
    if (this.phase === "waiting" || this.phase === "held") this.#appoint(now + (plenty ? WELCOME : 0));
    else if (!wake.granted) this.session.missed = now;
  }

  /** Ask whether it was granted, because wakes may have been missed. */
  look(): void {
    if (this.phase === "waiting") this.#appoint(this.#now());
  }

  async #ask(sent: number, deadline: number): Promise<Stood | null> {
    const { transport } = this.session;
    await transport.connected(deadline);
    if (this.id === "") this.#register();
    if (transport.told === undefined) {
      // A claim without `not_after` is not made. The reply tells the engine's time.
      await this.#send("claim", "said", deadline);
      if (transport.told === undefined) throw new EngineUnavailable("the service does not tell the time", false);
    }
    if (this.phase !== "asking") throw new EngineUnavailable("the acquisition has ended", false);
    this.#fixed ??= transport.told.at(this.#steady);
    this.#copies++;
    try {
      const standing = await this.#send("claim", "said", deadline);
      this.#copies--;
      if (standing?.ticket && this.phase === "asking") {
        this.#observe(sent, standing.left);
        this.#read(sent, standing);
      }
      return standing;
    } catch (error) {
      if (!(error instanceof EngineUnavailable && error.sent)) this.#copies--; // it was not applied
      throw error;
    }
  }

  #register(): void {
    if (this.phase !== "asking") throw new EngineUnavailable("the acquisition has ended", false);
    this.id = this.session.transport.identity.newId();
    this.session.transport.hear();
    this.session.claims.set(this.id, this);
    void this.#live();
  }

  /** Renew or resign it whenever that is due, and notice when its time is over. */
  async #live(): Promise<void> {
    for (;;) {
      const now = this.#now();
      this.holds();
      if (this.phase === "leaving" && now > this.#over) this.end();
      if (this.phase === "ended") return;
      if (now >= this.#due && !this.#busy) {
        this.#busy = true;
        this.#due = Infinity;
        const work = this.phase === "leaving" ? this.#resignAgain() : this.#renew();
        void work.finally(() => {
          this.#busy = false;
          this.#ring();
        });
      }
      const next = Math.min(this.#busy ? Infinity : this.#due, this.phase === "held" ? this.until : Infinity, now + WATCH);
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((done) => {
        this.#ring = done;
        timer = later(next - now, done);
      });
      clearTimeout(timer);
    }
  }

  async #renew(): Promise<void> {
    const sent = this.#now();
    const early = sent < this.until - this.#waitTtl / 2; // then leave time for two more attempts
    const patience = Math.min(IO, this.#waitTtl / 6) * (early ? 1 : 2);
    const urgent = this.#unsure || this.#woken || this.#waitTtl < SHORT;
    try {
      this.#renewed(sent, await this.#send("renew", "said", sent + patience, { urgent }));
    } catch (error) {
      this.#unanswered(error);
    }
  }

  #renewed(sent: number, standing: Stood | null): void {
    this.#woken = false;
    const held = this.holds(); // first, because a late reply does not revive a lease
    if (!held && this.phase !== "waiting") return;
    if (standing === null) return held ? this.lose("gone") : this.end();
    this.#observe(sent, standing.left);
    this.#unsure = false;
    if (held) this.#appoint(this.#now() + this.ttl / BEATS);
    else this.#read(sent, standing);
  }

  #unanswered(error: unknown): void {
    const now = this.#now();
    const again = now + Math.min(this.#waitTtl / 12, 1);
    if (this.holds()) {
      if (!this.#unsure) this.session.warn(`a renewal of "${this.name}" (token ${this.ticket}) failed, and is tried again: ${error}`);
      this.#unsure = true;
      this.#appoint(Math.min(again, this.until));
    } else if (this.phase === "waiting") {
      if (now < this.until + this.#waitTtl) return this.#appoint(again);
      this.#leave(); // the engine has expired it, so the acquisition makes another claim
      this.changed();
    }
  }

  async #removed(deadline: number): Promise<boolean> {
    let unanswered = false;
    for (let pause = 0; ; pause = longer(pause)) {
      try {
        return (await this.#send("resign", "gone", deadline, { doubt: this.#copies > 0 })) || unanswered;
      } catch (error) {
        if (!(error instanceof EngineUnavailable) || this.#now() + pause >= deadline) throw error;
        unanswered ||= error.sent; // then that request may have removed it
        await sleep(pause);
      }
    }
  }

  async #resignAgain(): Promise<void> {
    if (this.#over === Infinity) this.#leave(); // a release that takes long
    await this.resigned(this.#now() + 1);
  }

  #leave(): void {
    const now = this.#now();
    this.phase = "leaving";
    this.#over = Math.max(now, this.until, this.#notAfter) + this.ttl;
    this.#appoint(now);
  }

  /** Extend its validity: the engine keeps it for `left` seconds, counted from before the request was sent. */
  #observe(sent: number, left: number): void {
    const until = sent + left * (1 - DRIFT);
    if (until <= this.until) return;
    this.until = until;
    this.#kept = sent;
  }

  #read(sent: number, standing: Stood): void {
    const now = this.#now();
    this.phase = "waiting";
    this.ticket = standing.ticket;
    this.blocker = standing.blocker;
    if (standing.granted) this.#pushed = now;
    // Sent after the grant was pushed, and the reply says "waiting": the engine has lost the grant.
    else if (this.#pushed <= sent) this.#pushed = Infinity;
    this.#start();
    if (this.phase !== "waiting") return this.#appoint(standing.granted ? this.#kept + (this.until - this.#kept) / BEATS : now);
    // A push has overtaken this reply, or was lost.
    if (this.#pushed < Infinity || sent <= this.session.missed) return this.#appoint(now);
    // A holder that crashes sends no wake, so the first waiter looks by itself.
    this.#appoint(now + Math.min(this.#waitTtl / BEATS, (standing.recheck ?? Infinity) + 0.001));
  }

  /** Hold the lock, if it was granted and the last renewal is still valid. */
  #start(): void {
    if (this.phase !== "waiting" || this.#pushed === Infinity || this.#now() >= this.until) return;
    this.phase = "held";
    this.blocker = null;
    this.changed();
  }

  #appoint(when: number): void {
    this.#due = Math.min(this.#due, when);
    this.#ring();
  }

  async #send<T extends "said" | "gone">(t: "claim" | "renew" | "resign", kind: T, deadline: number, more = {}) {
    const { transport } = this.session;
    const reply = await transport.call({ t, within: 0, asks: [this.#asked()], ...more }, kind, deadline);
    const where = transport.line?.where ?? "the service";
    const [fault] = reply.faults;
    const [result] = reply.results;
    if (fault !== undefined) throw failure(where, fault);
    if (result === undefined) throw new EngineUnavailable(`${where}: no result`, true);
    return result as Reply<T>["results"][number];
  }

  /** Return a signed token. */
  async signed(audience: string): Promise<string> {
    const { clock, transport } = this.session;
    const request = { t: "sign", within: 0, ask: this.#asked(), audience } as const;
    return (await transport.call(request, "signed", Math.min(clock.now() + IO, this.until))).token;
  }

  /** Return it as it is sent. Every copy has the same content. */
  #asked() {
    return {
      id: this.id,
      name: this.name,
      ttl: this.ttl,
      queue: this.queue,
      not_after: this.#fixed,
      ticket: this.ticket,
      granted: this.phase === "held",
      payload: this.payload.toString("base64"),
    };
  }

  #now(): number {
    return this.session.clock.now();
  }
}
