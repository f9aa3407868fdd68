// The client: connects to the service, and acquires locks.
import { acquire, type Options } from "./acquire.js";
import type { Lease } from "./claim.js";
import { Session } from "./session.js";
import { replicasOf } from "./url.js";

export interface Settings {
  /** The API key, or a function that returns it for each connection. By default, that of the URL. */
  key?: string | (() => string);
  /** The file with the certificates to trust, read for each connection. By default, those of Node. */
  caFile?: string;
  /** Is called with each warning, such as a renewal that failed. By default, `console.warn`. */
  log?: (text: string) => void;
}

export interface Client {
  /** Acquire a lock, and return its lease. The caller releases it. */
  acquire(name: string, options: Options): Promise<Lease>;
  /** Release all leases, and disconnect. The process can end only after this. */
  close(): Promise<void>;
}

/** Return a client of the service. It connects when it is first used. */
export function connect(urls: string | readonly string[], settings: Settings = {}): Client {
  const session = new Session(replicasOf(urls), settings);
  return {
    acquire: async (name, options) => await acquire(session, name, options),
    close: async () => await session.close(),
  };
}
