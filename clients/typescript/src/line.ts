// A line: one connection to a replica, with the requests that are under way on it.
import { WebSocket } from "ws";
import { advice } from "./advice.js";
import { type Clock, EngineClock, later } from "./clock.js";
import { EngineRefused, EngineUnavailable, type LockfastError } from "./errors.js";
import type { Identity } from "./identity.js";
import { type Answer, type Fault, LARGEST_REPLY, parse, type Reply, type Request, VERSION, type Wake } from "./messages.js";
import type { Address, Place } from "./url.js";

const SPREAD = 1; // seconds over which the clients of a replica that ends connect to others
const PROOF = 1; // seconds without a byte after a request until a ping is sent, or a third of the request's time
const PONG = 0.25; // seconds that the answer to this ping gets at least
const REFUSALS: Record<number, string> = {
  401: "it rejects the API key, or needs one. Make one with `lockfast new-key NAME`, and pass it to connect()",
  403: "it rejects this client",
  404: "there is no service of lockfast at this path",
};

/** What a line tells the client that it belongs to. */
export interface Listener {
  woken(wake: Wake): void;
  /** The line has ended after its greeting, or is to be left. */
  changed(): void;
}

export class Line {
  readonly where: string;
  /** Resolves when the replica has greeted, or when the connection has ended. */
  readonly ready: Promise<void>;
  error: LockfastError | undefined;
  /** When to connect to another replica, because this one has asked for it. */
  moving = Infinity;
  /** The engine's clock, by the latest reply. */
  told: EngineClock | undefined;
  #epoch = 0;
  #welcomed = false;
  #received: number;
  #next = 1;
  #made: () => void = () => {};
  readonly #pending = new Map<number, (result: Reply | LockfastError) => void>();
  readonly #socket: WebSocket;

  constructor(
    place: Place,
    address: Address,
    private readonly identity: Identity,
    private readonly clock: Clock,
    private readonly listener: Listener,
  ) {
    const at = `${place.host}:${place.port}`;
    this.where = `the service at ${at}`;
    this.#received = clock.now();
    this.ready = new Promise((done) => (this.#made = done));
    const key = address.key();
    const ca = address.ca();
    this.#socket = new WebSocket(`${address.secure ? "wss" : "ws"}://${at}${address.path}`, {
      maxPayload: LARGEST_REPLY,
      perMessageDeflate: false,
      rejectUnauthorized: true, // whatever NODE_TLS_REJECT_UNAUTHORIZED says
      headers: { "User-Agent": "lockfast-typescript", ...(key === undefined ? {} : { Authorization: `Bearer ${key}` }) },
      ...(ca === undefined ? {} : { ca }),
    });
    this.#socket
      .on("open", () => this.#greet())
      .on("message", (data, binary) => this.#receive(String(data), binary))
      .on("ping", () => (this.#received = clock.now()))
      .on("pong", () => (this.#received = clock.now()))
      .on("error", (error) => {
        const what = this.#welcomed ? "" : advice(error, address.secure);
        this.drop(this.#unavailable(`${error.message.trimEnd()}${what}`));
      })
      .on("close", (code, reason) => this.drop(this.#unavailable(`the connection ended (${code} ${reason})`)))
      .on("unexpected-response", (_, { statusCode = 0 }) => {
        const refusal = REFUSALS[statusCode];
        if (refusal !== undefined) this.drop(new EngineRefused(`${this.where}: ${refusal}`));
        else this.drop(new EngineUnavailable(`${this.where}: it answered HTTP ${statusCode}`, false));
      });
  }

  /** Whether requests can be sent. A line is outdated once the client has greeted on another one. */
  get usable(): boolean {
    return this.#welcomed && this.error === undefined && this.#epoch === this.identity.epoch;
  }

  /** Whether no request is under way. */
  get idle(): boolean {
    return this.#pending.size === 0;
  }

  /** Send a request, and return its reply, which must be of this kind. */
  ask<T extends Answer>(request: Request, kind: T, deadline: number): Promise<Reply<T>> {
    const n = this.#next++;
    const patience = deadline - this.clock.now();
    return new Promise((resolve, reject) => {
      const timer = later(patience, () => this.#settle(n, this.#unavailable("no answer in time")));
      this.#pending.set(n, (result) => {
        clearTimeout(timer);
        if (result instanceof Error) reject(result);
        else if (result.t === kind) resolve(result as unknown as Reply<T>);
        else {
          reject(this.#unavailable("it answers another question"));
          this.drop(this.#unavailable("it answers another question"));
        }
      });
      this.#prove(Math.min(PROOF, patience / 3));
      this.post({ ...request, n });
    });
  }

  /** Send a message, and wait for nothing. Never throws. */
  post(message: object): void {
    if (this.error === undefined) this.#socket.send(JSON.stringify(message), () => {});
  }

  /** Note that the replica is to be left, at a random moment of the next second. */
  moveLater(): void {
    this.moving = this.clock.now() + Math.random() * SPREAD;
  }

  /** End the connection, and fail the requests under way, whose outcome is unknown. */
  drop(error: LockfastError): void {
    if (this.error !== undefined) return;
    this.error = error;
    this.#socket.terminate();
    for (const n of [...this.#pending.keys()]) this.#settle(n, new EngineUnavailable(error.message, true));
    this.#made();
    if (this.#welcomed) this.listener.changed();
  }

  /** End the connection if no byte arrives. A replica answers a ping at once, also if its engine is slow. */
  #prove(patience: number): void {
    const since = this.clock.now();
    const silent = (): boolean => this.error === undefined && this.#received < since;
    later(patience, () => {
      if (!silent()) return;
      this.#socket.ping(undefined, undefined, () => {});
      later(Math.max(patience, PONG), () => silent() && this.drop(this.#unavailable("it does not answer"))).unref();
    }).unref();
  }

  #greet(): void {
    this.#epoch = ++this.identity.epoch;
    this.post({ t: "hello", v: VERSION, secret: this.identity.secret, epoch: this.#epoch });
  }

  #receive(frame: string, binary: boolean): void {
    this.#received = this.clock.now();
    if (this.error !== undefined) return;
    try {
      if (binary) throw new Error("malformed message: text expected");
      if (this.#epoch !== this.identity.epoch) throw new Error("another connection has replaced this one");
      this.#take(parse(frame));
    } catch (error) {
      this.drop(error instanceof EngineRefused ? error : this.#unavailable((error as Error).message));
    }
  }

  #take(reply: Reply): void {
    if (reply.t === "welcome") this.#welcome(reply);
    else if (!this.#welcomed && (reply.t !== "failed" || reply.n !== 0)) throw new Error("it did not greet");
    else if (reply.t === "woken") this.listener.woken(reply);
    else if (reply.t === "goaway") {
      this.moveLater();
      this.listener.changed();
    } else if (reply.t === "failed") {
      if (reply.n === 0) throw new EngineRefused(`${this.where}: ${reply.fault.why}`);
      this.#settle(reply.n, failure(this.where, reply.fault));
    } else {
      if (reply.t === "said") this.#tell(reply.now);
      this.#settle(reply.n, reply);
    }
  }

  #welcome(reply: Reply<"welcome">): void {
    this.identity.client ||= reply.client;
    if (reply.v !== VERSION || reply.client !== this.identity.client || this.#welcomed) {
      throw new EngineRefused(`${this.where}: the replica has not understood the greeting`);
    }
    this.#tell(reply.now);
    this.#welcomed = true;
    this.#made();
  }

  #tell(now: number | null): void {
    if (now !== null) this.told = new EngineClock(now, this.clock.steady());
  }

  #settle(n: number, result: Reply | LockfastError): void {
    const settle = this.#pending.get(n);
    this.#pending.delete(n);
    settle?.(result);
  }

  #unavailable(text: string): EngineUnavailable {
    return new EngineUnavailable(`${this.where}: ${text}`, true);
  }
}

/** Return the error for a request, or a claim of it, that failed. */
export function failure(where: string, fault: Fault): LockfastError {
  const text = `${where}: ${fault.why}`;
  return fault.kind === "unavailable" ? new EngineUnavailable(text, fault.sent) : new EngineRefused(text);
}
