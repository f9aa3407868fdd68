// What the client says if it cannot connect.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { connect } from "../src/index.js";
import { Servers } from "./servers.js";

let servers: Servers;
before(async () => (servers = await Servers.start()));
after(async () => await servers.stop());

async function said(url: string): Promise<string> {
  const client = connect(url, { log: () => {} });
  try {
    await client.acquire("advice", { ttl: 5, timeout: 0 });
  } catch (error) {
    return (error as Error).message;
  } finally {
    await client.close();
  }
  return "";
}

test("it says what to do about TLS, a certificate, and a port where nobody listens", async () => {
  const { replicas, secure } = servers.told;
  assert.match(await said(replicas[0].replace("lockfast:", "lockfasts:")), /The service has no TLS: write lockfast:\/\/$/);
  assert.match(await said(secure.replace("lockfasts:", "lockfast:")), /Does the service have TLS\? Then write lockfasts:\/\/$/);
  assert.match(await said(secure), /by caFile$/);
  assert.match(await said("lockfast://127.0.0.1:1"), /Start `lockfast serve` there/);
});
