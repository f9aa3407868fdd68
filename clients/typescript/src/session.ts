// The session of one client: its claims, and the line to a replica that all of them share.
import type { Claim } from "./claim.js";
import type { Settings } from "./client.js";
import { Clock, sleep, within } from "./clock.js";
import { ClientClosed, EngineRefused, EngineUnavailable, type LockfastError } from "./errors.js";
import { Identity } from "./identity.js";
import { Line } from "./line.js";
import { CLIENT, type Wake } from "./messages.js";
import type { Replica } from "./url.js";

const IO = 5; // seconds after which an attempt to connect is given up
const QUICK = 0.5; // seconds that each of several replicas gets at first: one that is paused never answers
const SLOWEST = 8; // how many times longer attempts and pauses become while no replica answers
const CALM = 0.1; // seconds between two attempts to connect, at first
const QUIET = 0.5; // seconds in which the requests under way may end before a replica is left
const PARTING = 1.5; // seconds that closing may take

export class Session {
  readonly clock = new Clock();
  readonly identity = new Identity();
  readonly claims = new Map<string, Claim>();
  /** How far the engine's clock is ahead of our steady one. It may seem less, but never more. */
  ahead: number | null = null;
  #line: Line | undefined;
  #opening: Promise<LockfastError | undefined> | undefined;
  #slow = 1;
  #why = "no connection in time"; // why no replica has accepted the client lately
  #tending = false;
  #closed = false;
  readonly #replicas: Replica[];

  constructor(replicas: Replica[], readonly settings: Settings) {
    // In a random order, so that the clients of a fleet are spread over the replicas.
    const drawn = replicas.map((replica) => ({ replica, at: Math.random() }));
    this.#replicas = drawn.sort((a, b) => a.at - b.at).map((each) => each.replica);
  }

  /** Throw unless the client may be used. */
  enter(): void {
    if (this.#closed) throw new ClientClosed("this client is closed. Call connect() again.");
  }

  warn(text: string): void {
    (this.settings.log ?? console.warn)(`lockfast: ${text}`);
  }

  /** Return the engine's time in some seconds, or null if no reply has told it. */
  engineTime(seconds: number): number | null {
    return this.ahead === null ? null : this.clock.steady() + this.ahead + seconds;
  }

  /** Return a line to a replica. Connect if there is none, or if the replica has asked to be left. */
  async connected(deadline: number): Promise<Line> {
    for (;;) {
      if (this.claims.size === 0) this.enter(); // a client that closes still resigns
      if (this.#line?.usable && this.clock.now() < this.#line.moving) return this.#line;
      this.#opening ??= this.#open().finally(() => (this.#opening = undefined));
      const failure = await within(this.#opening, deadline - this.clock.now());
      if (this.#line?.usable) return this.#line; // also one that is to be left, if no other accepts us
      if (failure !== undefined) throw failure;
      if (this.clock.now() >= deadline) throw new EngineUnavailable(this.#why, false);
    }
  }

  /** Pass a wake on. One with a shorter id says that wakes of all claims may have been missed. */
  woken({ id, granted }: Wake): void {
    if (id.length > CLIENT) this.claims.get(id)?.wake(granted);
    else for (const claim of this.claims.values()) if (claim.phase !== "held") claim.wake(false);
  }

  /** While there are claims, keep a line: wakes come on it. Leave a replica that asks for it. */
  async tend(): Promise<void> {
    if (this.#tending) return;
    this.#tending = true;
    while (!this.#line?.usable || this.#line.moving < Infinity) {
      if (this.#line?.usable) await sleep(this.#line.moving - this.clock.now());
      if (this.claims.size === 0) {
        this.#line?.drop("the client has left it");
        break;
      }
      // A pause of random length, so that a fleet does not flood the service.
      const pause = CALM * this.#slow * (1 + Math.random());
      await this.connected(this.clock.now() + IO).catch(() => sleep(pause));
    }
    this.#tending = false;
  }

  /** Release all leases, resign all waiters, and disconnect. */
  async close(): Promise<void> {
    this.#closed = true;
    const claims = [...this.claims.values()];
    for (const claim of claims) {
      if (claim.held) claim.lose("released");
      else claim.giveUp();
    }
    await within(Promise.all(claims.map((claim) => claim.ended)), PARTING);
    for (const claim of this.claims.values()) {
      this.warn(`the client was closed, and "${claim.name}" may stay taken until its ttl is over`);
      claim.end();
    }
    this.#line?.drop("the client was closed");
  }

  /** Connect to the first replica that answers. Return the error if there is none. */
  async #open(): Promise<LockfastError | undefined> {
    const old = this.#line;
    const quiet = this.clock.now() + QUIET;
    while (old?.usable && !old.idle && this.clock.now() < quiet) await sleep(0.01);
    const patience = old?.usable ? QUICK : this.#replicas.length > 1 ? QUICK * this.#slow : IO;
    const errors: LockfastError[] = [];
    for (const replica of [...this.#replicas]) {
      this.#replicas.push(...this.#replicas.splice(0, 1)); // the next attempt begins with another one
      const line = new Line(replica, this);
      await within(line.ready, patience);
      if (line.usable) {
        this.#slow = 1;
        this.#line = line;
        old?.drop("the client has left it");
        if (this.#closed && this.claims.size === 0) line.drop("the client was closed"); // nobody else would
        return undefined;
      }
      errors.push(line.drop("no greeting in time"));
    }
    this.#slow = Math.min(2 * this.#slow, SLOWEST);
    if (old?.usable) old.moveLater(); // it has asked its clients to leave, and still works
    this.#why = errors.map((each) => each.message).join("; ");
    if (errors.every((each) => each instanceof EngineRefused)) return new EngineRefused(this.#why);
    return new EngineUnavailable(this.#why, false);
  }
}
