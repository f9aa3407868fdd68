// The examples of the README, as a reader would run them.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Servers } from "./servers.js";

let servers: Servers;
before(async () => (servers = await Servers.start()));
after(async () => await servers.stop());

test("the examples of the README run", async () => {
  const page = await readFile(new URL("../../README.md", import.meta.url), "utf8");
  const examples = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map((found) => found[1] ?? "");
  const printed = [];
  for (const [at, example] of examples.entries()) {
    const path = fileURLToPath(new URL(`example-${at}.mjs`, import.meta.url)); // in the package, whose name it imports
    const [first, second] = servers.told.replicas.map((each) => each.split(":").at(-1) ?? "");
    await writeFile(path, example.replaceAll("7420", first ?? "").replace(`1:${first}"]`, `1:${second}"]`));
    printed.push((await promisify(execFile)(process.execPath, [path])).stdout);
  }
  assert.equal(printed.length, 3);
  assert.match(printed[0] ?? "", /^locked, with fencing token \d+n\n$/);
  assert.match(printed[1] ?? "", /^still locked 200 \d+\n$/);
  assert.match(printed[2] ?? "", /^locked, with fencing token \d+ for 2\d s\nstill held: true\n$/);
});
