// A line: one connection to a replica, with the requests that are under way on it.
import { readFileSync } from "node:fs";
import { WebSocket } from "ws";
import { later, within } from "./clock.js";
import { EngineRefused, EngineUnavailable, type LockfastError } from "./errors.js";
import { type Answer, LARGEST_REPLY, parse, type Reply, type Request, VERSION } from "./messages.js";
import type { Session } from "./session.js";
import type { Replica } from "./url.js";

const SPREAD = 1; // seconds over which the clients of a replica that ends connect to others
const PROOF = 1; // seconds without a byte after a request until a ping, or a third of the request's time
const PONG = 0.25; // seconds that the answer to this ping gets at least
const REFUSALS: Record<number, string> = {
  401: "it rejects the API key, or needs one. Make one with `lockfast new-key`, and pass it to connect()",
  403: "it rejects this client",
  404: "there is no service of lockfast at this path",
};

export class Line {
  /** Resolves when the replica has greeted, or when the connection has ended. */
  readonly ready: Promise<void>;
  /** When to connect to another replica, because this one has asked for it. */
  moving = Infinity;
  #error: LockfastError | undefined;
  #epoch = 0;
  #welcomed = false;
  /** When bytes have arrived last. */
  #received = 0;
  #next = 1;
  #made: () => void = () => {};
  readonly #where: string;
  readonly #pending = new Map<number, (result: Reply | Error) => void>();
  readonly #socket: WebSocket;

  constructor(replica: Replica, private readonly session: Session) {
    this.#where = `the service at ${replica.at}`;
    this.ready = new Promise((done) => (this.#made = done));
    const { key: login = replica.key, caFile } = session.settings;
    const key = typeof login === "function" ? login() : login;
    this.#socket = new WebSocket(replica.url, {
      maxPayload: LARGEST_REPLY,
      perMessageDeflate: false,
      rejectUnauthorized: true, // whatever NODE_TLS_REJECT_UNAUTHORIZED says
      headers: { "User-Agent": "lockfast-typescript", ...(key && { Authorization: `Bearer ${key}` }) },
      ...(caFile && { ca: readFileSync(caFile) }),
    });
    const alive = () => (this.#received = session.clock.now());
    this.#socket
      .on("open", () => this.#greet())
      .on("message", (data, binary) => alive() && this.#receive(String(data), binary))
      .on("ping", alive)
      .on("pong", alive)
      .on("error", (error) => this.drop(error.message))
      .on("close", (code, reason) => this.drop(`the connection ended (${code} ${reason})`))
      .on("unexpected-response", (_, { statusCode = 0 }) =>
        this.drop(REFUSALS[statusCode] ?? `it answered HTTP ${statusCode}`, statusCode in REFUSALS),
      );
  }

  /** Whether requests can be sent. A line is outdated once the client has greeted on another one. */
  get usable(): boolean {
    return this.#welcomed && this.#error === undefined && this.#epoch === this.session.identity.epoch;
  }

  /** Whether no request is under way. */
  get idle(): boolean {
    return this.#pending.size === 0;
  }

  /** Send a request, and return its reply, which must be of this kind. */
  async ask<T extends Answer>(request: Request, kind: T, deadline: number): Promise<Reply<T>> {
    if (!this.usable) throw new EngineUnavailable(`${this.#where}: the client has left it`, false);
    const n = this.#next++;
    const seconds = Math.max(deadline - this.session.clock.now(), 0);
    const answer = new Promise<Reply | Error>((done) => this.#pending.set(n, done));
    this.#post({ ...request, n, within: seconds });
    this.#prove(Math.min(PROOF, seconds / 3));
    const found = await within(answer, seconds);
    this.#pending.delete(n);
    if (found === undefined) throw new EngineUnavailable(`${this.#where}: no answer in time`, true);
    if (found instanceof Error) throw found;
    const fault = found.t === "failed" ? found.fault : "faults" in found ? found.faults : null;
    const why = `${this.#where}: ${fault?.why}`;
    if (fault?.kind === "unavailable") throw new EngineUnavailable(why, fault.sent);
    if (fault) throw new EngineRefused(why);
    if (found.t !== kind) throw this.drop("it answers another question");
    return found as unknown as Reply<T>;
  }

  /** Note that the replica is to be left, at a random moment of the next second. */
  moveLater(): void {
    this.moving = this.session.clock.now() + Math.random() * SPREAD;
    void this.session.tend();
  }

  /** End the connection. Return the error, also for the requests under way, whose outcome is unknown. */
  drop(why: string, refused = false): LockfastError {
    if (this.#error !== undefined) return this.#error;
    const error = new EngineUnavailable(`${this.#where}: ${why}`, true);
    this.#error = refused ? new EngineRefused(error.message) : error;
    this.#socket.terminate();
    for (const settle of this.#pending.values()) settle(error);
    this.#made();
    if (this.#welcomed) void this.session.tend();
    return this.#error;
  }

  #post(message: object): void {
    this.#socket.send(JSON.stringify(message), () => {});
  }

  /** End the connection if no byte arrives. A replica answers a ping at once, also if its engine is slow. */
  #prove(patience: number): void {
    const since = this.session.clock.now();
    const silent = () => this.#error === undefined && this.#received < since;
    later(patience, () => {
      if (!silent()) return;
      this.#socket.ping(undefined, undefined, () => {});
      later(Math.max(patience, PONG), () => silent() && this.drop("it does not answer")).unref();
    }).unref();
  }

  #greet(): void {
    const { identity } = this.session;
    this.#epoch = ++identity.epoch;
    this.#post({ t: "hello", v: VERSION, secret: identity.secret, epoch: this.#epoch, hear: true });
  }

  #receive(frame: string, binary: boolean): void {
    if (this.#epoch !== this.session.identity.epoch) this.drop("another connection has replaced this one");
    if (this.#error !== undefined) return;
    try {
      this.#take(parse(binary ? "" : frame));
    } catch (error) {
      this.drop((error as Error).message);
    }
  }

  #take(reply: Reply): void {
    const told = reply.t === "welcome" || reply.t === "said" ? reply.now : null;
    if (told !== null) this.session.ahead = told - this.session.clock.steady();
    if (reply.t === "failed" && reply.n === 0) this.drop(reply.fault.why, true);
    else if (reply.t === "welcome") this.#welcome(reply);
    else if (!this.#welcomed) this.drop("it did not greet");
    else if (reply.t === "woken") this.session.woken(reply);
    else if (reply.t === "goaway") this.moveLater();
    else this.#pending.get(reply.n)?.(reply);
  }

  #welcome({ v, client }: Reply<"welcome">): void {
    const { identity } = this.session;
    identity.client ||= client;
    if (v !== VERSION || client !== identity.client || this.#welcomed) {
      this.drop("the replica has not understood the greeting", true);
    }
    this.#welcomed = true;
    this.#made();
  }
}
