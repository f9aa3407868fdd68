// The client: connects to the service, acquires locks, and shows who has them.
import { acquire, type Options } from "./acquire.js";
import { Session } from "./session.js";
import type { Lease } from "./lease.js";
import type { Reply } from "./messages.js";
import { addressOf, type Login } from "./url.js";
import { type Who, whoOf } from "./who.js";

const IO = 5; // seconds that a page of claims may take

/** The login, and where warnings go. */
export interface Settings extends Login {
  /** Is called with each warning, such as a renewal that failed. By default, `console.warn`. */
  log?: (text: string) => void;
}

/** Return a client of the service. It connects when it is first used. */
export function connect(urls: string | readonly string[], settings: Settings = {}): Client {
  return new Client(urls, settings);
}

export class Client {
  readonly #session: Session;

  constructor(urls: string | readonly string[], settings: Settings) {
    this.#session = new Session(addressOf(urls, settings), settings.log ?? console.warn);
  }

  /** Acquire a lock, and return its lease. The caller releases it. */
  async acquire(name: string, options: Options): Promise<Lease> {
    return await acquire(this.#session, name, options);
  }

  /** Hold a lock while `body` runs, and return what it returns. Throws `LeaseLost` if the lease was lost. */
  async withLock<T>(name: string, options: Options, body: (lease: Lease) => Promise<T> | T): Promise<T> {
    const lease = await this.acquire(name, options);
    let result: T;
    try {
      result = await body(lease);
    } catch (error) {
      await lease.release().catch(() => {}); // the error of the body says more
      throw error;
    }
    await lease.release();
    return result;
  }

  /** Return who holds a lock, and then who waits for it, in the order of the queue. */
  async who(name: string): Promise<Who[]> {
    const found: Who[] = [];
    for await (const each of this.#claims(name, true)) found.push(each);
    return found.sort((a, b) => (a.token < b.token ? -1 : 1));
  }

  /** Go through the holders and waiters of all locks whose names begin with `prefix`. */
  inspect(prefix = ""): AsyncGenerator<Who> {
    return this.#claims(prefix, false);
  }

  /** Release all leases, and disconnect. The process can end only after this. */
  async close(): Promise<void> {
    await this.#session.close();
  }

  async *#claims(names: string, exact: boolean): AsyncGenerator<Who> {
    const { transport, clock } = this.#session;
    this.#session.enter();
    let cursor: string | null = null;
    do {
      const page: Reply<"page"> = await transport.call({ t: "inspect", names, cursor, exact }, "page", clock.now() + IO);
      yield* page.entries.map(whoOf);
      cursor = page.cursor;
    } while (cursor !== null);
  }
}
