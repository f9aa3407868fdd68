// The transport: keeps one line to a replica, and moves to another replica when that is necessary.
import { type Clock, type EngineClock, sleep, within } from "./clock.js";
import { ClientClosed, EngineRefused, EngineUnavailable, type LockfastError } from "./errors.js";
import { Identity } from "./identity.js";
import { Line, type Listener } from "./line.js";
import type { Answer, Reply, Request } from "./messages.js";
import type { Address, Place } from "./url.js";

const IO = 5; // seconds after which an attempt to connect is given up
const QUICK = 0.5; // seconds that each of several hosts gets at first
const MOVING = 1; // seconds after which an attempt to leave a replica that still works is given up
const QUIET = 0.5; // seconds in which the requests under way may end before the replica is left
const LEAST = 0.05; // seconds that an attempt to connect to one host gets at least
const SLOWEST = 8; // how many times longer an attempt may take after others have failed

export class Transport {
  readonly identity = new Identity();
  line: Line | undefined;
  /** The engine's clock, as the latest replica has told it. */
  told: EngineClock | undefined;
  closed = false;
  /** Whether replicas are to send wakes. */
  #hears = false;
  #places: Place[];
  #opening: Promise<LockfastError | undefined> | undefined;
  #slow = 1;

  constructor(
    private readonly address: Address,
    private readonly clock: Clock,
    private readonly listener: Listener,
  ) {
    // In a random order, so that the clients of a fleet are spread over the replicas.
    const drawn = address.places.map((place) => ({ place, at: Math.random() }));
    this.#places = drawn.sort((a, b) => a.at - b.at).map((each) => each.place);
  }

  /** Return the line. Connect if there is none, or if the replica has asked to be left. */
  async connected(deadline: number): Promise<Line> {
    for (;;) {
      if (this.closed) throw new ClientClosed("this client is closed. Call connect() again.");
      const line = this.line;
      if (line?.usable && this.clock.now() < line.moving) return line;
      this.#opening ??= this.#open().finally(() => (this.#opening = undefined));
      const ended = this.#opening.then((failure) => ({ failure }));
      const found = await within(ended, deadline - this.clock.now());
      if (this.line?.usable) return this.line;
      const error = found === undefined ? undefined : (found.failure ?? this.line?.error);
      if (error instanceof EngineRefused || error instanceof ClientClosed) throw error;
      if (error !== undefined) throw new EngineUnavailable(error.message, false);
      if (this.clock.now() >= deadline) throw new EngineUnavailable(`no connection to ${this.#all()} in time`, false);
    }
  }

  /** Send a request to the replica, and return its reply. */
  async call<T extends Answer>(request: Request, kind: T, deadline: number): Promise<Reply<T>> {
    const line = await this.connected(deadline);
    if ("within" in request) request.within = Math.max(deadline - this.clock.now(), 0);
    try {
      return await line.ask(request, kind, deadline);
    } finally {
      this.told = line.told ?? this.told;
    }
  }

  /** Send a request whose reply nobody needs, if there is a line. */
  post(request: Request): void {
    if (this.line?.usable) this.line.post({ ...request, n: 0 });
  }

  /** Ask for wakes from now on. */
  hear(): void {
    if (this.#hears) return;
    this.#hears = true;
    if (this.line?.usable) this.line.post({ t: "hear", on: true });
  }

  close(): void {
    this.closed = true;
    this.line?.drop(new EngineUnavailable("the client was closed", true));
  }

  /** Connect to the first replica that answers. Return the error if there is none. */
  async #open(): Promise<LockfastError | undefined> {
    const old = this.line;
    const works = old?.usable ?? false;
    const due = this.clock.now() + (works ? MOVING : IO * this.#slow);
    for (const until = this.clock.now() + QUIET; old?.usable && !old.idle && this.clock.now() < until; ) {
      await sleep(LEAST / 5);
    }
    const found = await this.#first(due);
    if (!(found instanceof Line)) {
      this.#slow = Math.min(2 * this.#slow, SLOWEST);
      if (old?.usable) old.moveLater(); // it has asked its clients to leave, and still works
      return found;
    }
    this.#slow = 1;
    this.line = found;
    this.told = found.told ?? this.told;
    if (this.#hears) found.post({ t: "hear", on: true });
    if (this.closed) this.close(); // nobody else would
    old?.drop(new EngineUnavailable(`${old.where}: the client has left it`, true));
    return undefined;
  }

  /**
   * Each host has a short time first. One that is paused may accept connections and never answer,
   * and leases of a short ttl must not be lost meanwhile. Then each has its share of the time.
   */
  async #first(deadline: number): Promise<Line | LockfastError> {
    const failures = new Map<Place, LockfastError>();
    const places = [...this.#places];
    const rounds = places.length > 1 ? 2 : 1;
    const tries = Array.from({ length: rounds }, () => places).flat();
    for (const [tried, place] of tries.entries()) {
      const now = this.clock.now();
      if (now >= deadline || this.closed) break;
      let share = (deadline - now) / (tries.length - tried);
      if (tried < tries.length - places.length) share = Math.min(share, QUICK * this.#slow);
      const line = await this.#dial(place, Math.max(share, LEAST));
      if (line instanceof Line) {
        // The next connection goes to another replica, if there is one.
        const at = this.#places.indexOf(place) + 1;
        this.#places = [...places.slice(at), ...places.slice(0, at)];
        return line;
      }
      failures.set(place, line);
    }
    const errors = [...failures.values()];
    const first = errors[0];
    if (first instanceof EngineRefused && errors.every((each) => each instanceof EngineRefused)) return first;
    return new EngineUnavailable(errors.map((each) => each.message).join("; ") || "no time to connect", false);
  }

  async #dial(place: Place, patience: number): Promise<Line | LockfastError> {
    try {
      const line = new Line(place, this.address, this.identity, this.clock, this.listener);
      await within(line.ready, patience);
      if (!line.usable) line.drop(new EngineUnavailable(`${line.where}: no greeting in time`, false));
      return line.error ?? line;
    } catch (error) {
      return new EngineRefused(`the login cannot be read: ${(error as Error).message}`); // a file of it
    }
  }

  #all(): string {
    return this.#places.map((each) => `${each.host}:${each.port}`).join(" or ");
  }
}
