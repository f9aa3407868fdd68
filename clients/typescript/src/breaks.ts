// The records of breaks: who took a lock away from its holder by force, when and why.
import { plain } from "./errors.js";
import { read, textOf } from "./who.js";

/** Return who broke a claim and why, in words, or "" if no record says so. `records`: the newest first. */
export function breakOf(records: readonly Buffer[], id: string): string {
  // The oldest record of a claim counts: a later break has found it gone.
  const found = [...records].reverse().map(read).find((each) => each["id"] === id);
  if (found === undefined) return "";
  const at = Number(found["at"]);
  const when = at > 0 && at < 8e9 ? ` at ${new Date(at * 1e3).toISOString()}` : "";
  return plain(`broken by ${textOf(found["by"], 200, "?")}${when}: ${textOf(found["reason"], 300, "")}`);
}
