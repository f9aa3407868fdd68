// Who holds a lock or waits for it: the description that each claim carries, for people to read.
import { hostname } from "node:os";
import { basename } from "node:path";
import { plain } from "./errors.js";
import type { Listed } from "./messages.js";

/** A holder or waiter. */
export interface Who {
  readonly name: string;
  readonly id: string;
  readonly token: bigint;
  readonly granted: boolean;
  /** Seconds until its claim ends unless it is renewed. */
  readonly left: number;
  readonly host: string;
  readonly pid: number;
  readonly worker: string;
  readonly service: string;
  readonly purpose: string;
  /** When it asked, in seconds since 1970, by its own clock. */
  readonly since: number;
}

/** Return the description of this process, as the payload of a claim. */
export function payload(purpose: string, ttl: number): Buffer {
  const said = {
    host: hostname().slice(0, 255),
    pid: process.pid,
    worker: "node",
    service: basename(process.argv[1] ?? "node").slice(0, 64),
    purpose: purpose.slice(0, 256),
    since: Math.round(Date.now() / 1e3),
    ttl,
  };
  return Buffer.from(JSON.stringify(said));
}

/** Return an entry of the queue. Any client can write any description, so each field is checked. */
export function whoOf(entry: Listed): Who {
  const { name, id, ticket, granted, left } = entry;
  return { name, id, token: BigInt(ticket), granted, left, ...described(entry.payload) };
}

/** Return the description of a holder in words. They are safe to log and to print. */
export function words(raw: Buffer): string {
  const { host, pid, worker, service, purpose, since } = described(raw);
  const said = [service, purpose && `(${purpose})`].filter(Boolean).join(" ");
  const age = since > 0 ? `, for ${Math.max(Date.now() / 1e3 - since, 0).toFixed(0)} s` : "";
  return plain(`${said && `${said} on `}${host} pid ${pid} [${worker}]${age}`);
}

function described(raw: Buffer) {
  const said = read(raw);
  return {
    host: textOf(said["host"], 255, "?"),
    pid: numberOf(said["pid"], 2 ** 32),
    worker: textOf(said["worker"], 128, "?"),
    service: textOf(said["service"], 64, ""),
    purpose: textOf(said["purpose"], 256, ""),
    since: numberOf(said["since"], 2 ** 40),
  };
}

/** Return the fields of a JSON object. None, if the bytes are no such object. */
export function read(raw: Buffer): Record<string, unknown> {
  try {
    return { ...(JSON.parse(raw.toString()) as object) };
  } catch {
    return {};
  }
}

/** Return a text of at most `longest` characters, or `otherwise` if it is none. */
export function textOf(found: unknown, longest: number, otherwise: string): string {
  return typeof found === "string" ? found.slice(0, longest) : otherwise;
}

function numberOf(found: unknown, highest: number): number {
  return typeof found === "number" && found >= 0 && found <= highest ? found : 0;
}
