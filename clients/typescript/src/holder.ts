// The description of a holder that each claim carries, for people to read.
import { hostname } from "node:os";
import { basename } from "node:path";
import { plain } from "./errors.js";

/** Return the description of this process, in base64. */
export function description(purpose: string, ttl: number): string {
  const said = {
    host: hostname().slice(0, 255),
    pid: process.pid,
    worker: "node",
    service: basename(process.argv[1] ?? "node").slice(0, 64),
    purpose: purpose.slice(0, 256),
    since: Math.round(Date.now() / 1e3),
    ttl,
  };
  return Buffer.from(JSON.stringify(said)).toString("base64");
}

/** Return a description in words. Any client can write anything there, so fields are checked and escaped. */
export function words(payload: string): string {
  const said = new Map<string, unknown>();
  try {
    const fields = JSON.parse(Buffer.from(payload, "base64").toString()) as object;
    for (const [field, found] of Object.entries(fields)) said.set(field, found);
  } catch {
    return "an unknown holder";
  }
  const field = (name: string) => {
    const found = said.get(name);
    return typeof found === "string" || typeof found === "number" ? plain(`${found}`.slice(0, 256)) : "?";
  };
  const process = `${field("host")} pid ${field("pid")} [${field("worker")}]`;
  return `${field("service")} (${field("purpose")}) on ${process}`;
}
