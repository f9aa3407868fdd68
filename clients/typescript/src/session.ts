// The session of one client: its claims by id, and the connection that all of them share.
import { breakOf } from "./breaks.js";
import type { Claim } from "./claim.js";
import { Clock, sleep } from "./clock.js";
import { ClientClosed, EngineUnavailable, LeaseLost } from "./errors.js";
import type { Listener } from "./line.js";
import { CLIENT, type Wake } from "./messages.js";
import { Transport } from "./transport.js";
import type { Address } from "./url.js";

const IO = 5; // seconds that an attempt to connect may take
const EXPLAINING = 0.25; // seconds to ask who broke a lock
const PARTING = 1.5; // seconds that closing may take
const CALM = [0.1, 2] as const; // seconds between two attempts to connect, the first and the longest

export class Session implements Listener {
  readonly clock = new Clock();
  readonly claims = new Map<string, Claim>();
  readonly transport: Transport;
  /** When a wake came last that does not say who was granted. */
  missed = -Infinity;
  #closed = false;
  #tending = false;

  constructor(address: Address, private readonly log: (text: string) => void) {
    this.transport = new Transport(address, this.clock, this);
  }

  /** Throw unless the client may be used. */
  enter(): void {
    if (this.#closed) throw new ClientClosed("this client is closed. Call connect() again.");
  }

  warn(text: string): void {
    if (!this.#closed) this.log(`lockfast: ${text}`);
  }

  woken(wake: Wake): void {
    if (wake.id.length > CLIENT) {
      this.claims.get(wake.id)?.wake(wake);
      return;
    }
    this.missed = this.clock.now(); // wakes of all claims whose ids begin so may have been missed
    for (const claim of [...this.claims.values()]) claim.look();
  }

  changed(): void {
    void this.#tend();
  }

  /** Return the error that says why a lease was lost. Ask who broke it, if that is how. */
  async explained(claim: Claim): Promise<LeaseLost> {
    let broken = "";
    if (claim.loss === "gone" && !this.#closed) {
      const request = { t: "records", within: 0, name: claim.name } as const;
      const reply = this.transport.call(request, "records", this.clock.now() + EXPLAINING);
      broken = breakOf((await reply.catch(() => undefined))?.records ?? [], claim.id);
    }
    return new LeaseLost(claim.name, BigInt(claim.ticket), claim.loss ?? "expired", broken);
  }

  /** Release all leases, resign all waiters, and disconnect. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    const end = this.clock.now() + PARTING;
    for (const claim of [...this.claims.values()]) {
      if (claim.holds()) claim.lose("released");
      else claim.giveUp();
      claim.changed();
    }
    for (let pause = 0.01; this.claims.size > 0 && this.clock.now() < end; pause *= 2) {
      const share = Math.max((end - this.clock.now()) / 2, 0.1);
      await Promise.all([...this.claims.values()].map((claim) => claim.resigned(this.clock.now() + share)));
      if (this.claims.size > 0) await sleep(Math.min(pause, Math.max(end - this.clock.now(), 0)));
    }
    for (const claim of [...this.claims.values()]) {
      this.log(`lockfast: the client was closed, and "${claim.name}" may stay taken for ${claim.ttl} s`);
      claim.end();
    }
    this.transport.close();
  }

  /** While there are claims, keep a connection: wakes come on it. Leave a replica that asks for it. */
  async #tend(): Promise<void> {
    if (this.#tending) return;
    this.#tending = true;
    for (let calm: number = CALM[0]; !this.#closed; ) {
      const line = this.transport.line;
      if (line?.usable && line.moving === Infinity) break;
      if (line?.usable) await sleep(line.moving - this.clock.now() + 0.001);
      if (this.claims.size === 0 && (line === undefined || line.idle)) {
        line?.drop(new EngineUnavailable(`${line.where}: the client has left it`, true));
        break;
      }
      try {
        await this.transport.connected(this.clock.now() + IO);
        calm = CALM[0];
      } catch {
        await sleep(calm * (0.5 + Math.random() / 2)); // so that a fleet does not flood the service
        calm = Math.min(2 * calm, CALM[1]);
      }
    }
    this.#tending = false;
  }
}
