// The addresses of the replicas, and the login for them, read from lockfast:// URLs.
import { readFileSync } from "node:fs";

/** One replica, or a load balancer in front of some. */
export interface Place {
  readonly host: string;
  readonly port: number;
}

/** The login. It wins over the URL. */
export interface Login {
  /** The API key, or a function that returns it for each connection. By default, that of the URL. */
  key?: string | (() => string);
  /** The file with the certificates to trust, read for each connection. By default, those of Node. */
  caFile?: string;
}

/** How to reach the service. */
export interface Address {
  readonly places: readonly Place[];
  readonly path: string;
  readonly secure: boolean;
  readonly key: () => string | undefined;
  readonly ca: () => string | undefined;
}

const FORM = /^lockfast(s?):\/\/(?::([^@/]*)@)?([^@/?#]*)([^@?#]*)$/;
const HOST = /^(\[[0-9a-fA-F:.]+\]|[^:[\]]+)(?::(\d{1,5}))?$/;

/** Read one URL with its replicas, or several that differ in these only. */
export function addressOf(urls: string | readonly string[], login: Login): Address {
  const parts = [urls].flat().map((url) => FORM.exec(url)?.slice(1) ?? []);
  const [secure, key = "", , path = ""] = parts[0] ?? [];
  if (secure === undefined || parts.some((each) => each[0] !== secure || (each[1] ?? "") !== key || each[3] !== path)) {
    throw new TypeError("write the URL as lockfasts://:KEY@HOST:PORT,HOST:PORT. Several may differ in their hosts only");
  }
  return {
    places: parts.flatMap((each) => (each[2] ?? "").split(",").map(placeOf)),
    path: `${path.replace(/\/+$/, "")}/v1/connect`,
    secure: secure === "s",
    key: () => (typeof login.key === "function" ? login.key() : (login.key ?? decodeURIComponent(key))) || undefined,
    ca: () => (login.caFile === undefined ? undefined : readFileSync(login.caFile, "utf8")),
  };
}

function placeOf(text: string): Place {
  const [, host, port = "7420"] = HOST.exec(text || "localhost") ?? [];
  if (host === undefined || Number(port) > 65_535) throw new TypeError(`"${text}" is not a host and port`);
  return { host, port: Number(port) };
}
