// Signed tokens, at the resource: the check of one by the service's public keys.
import { type JsonWebKey, verify as verified } from "node:crypto";
import { LockfastError } from "./errors.js";

const TOKEN = /^[1-9][0-9]{0,15}$/;
const JWS = /^[\w-]+\.[\w-]+\.[\w-]+$/;
const LONGEST = 8_192;
const LEEWAY = 60; // seconds by which the clocks of the service and of this machine may differ

/** The service's public keys: the contents of its `/.well-known/jwks.json`. */
export interface KeySet {
  keys: (JsonWebKey & { kid?: string })[];
}

/**
 * What a signed token says. Refuse it if the resource has seen a higher `token`, or the same one with
 * another `id`: after a failover, two leases can have the same token.
 */
export interface Proven {
  lock: string;
  token: bigint;
  id: string;
  /** Who the holder is for the service. Empty if it knows no subjects. */
  subject: string;
  issued: number;
}

/** It is forged, malformed, a reader's, for another lock or audience, or its key is not known. */
export class InvalidToken extends LockfastError {}

/** Return what a signed token says. Throws `InvalidToken`. `lock` is what guards the resource. */
export function verify(signed: string, keys: KeySet, lock: string, audience: string): Proven {
  demand(signed.length <= LONGEST && JWS.test(signed), "this is no signed token");
  const [head = "", body = "", signature = ""] = signed.split(".");
  const { alg, typ, crit, kid } = parsed(head);
  demand(alg === "EdDSA" && typ === "fencing+jwt" && crit === undefined, "it is not one of a lock");
  const jwk = keys.keys.find((each) => each.kid === kid && each.crv === "Ed25519");
  demand(jwk !== undefined, "the signed token names a key that is not known");
  const [data, proof] = [Buffer.from(`${head}.${body}`), Buffer.from(signature, "base64url")];
  demand(verified(null, data, { key: jwk, format: "jwk" }, proof), "the signature is not valid");
  const { aud, lock: name, token, id, sub = "", iat, floor } = parsed(body);
  demand(aud === audience && name === lock, "the signed token is for another lock or audience");
  // Several readers hold the lock at once, and the highest ticket among them would refuse the others.
  demand(floor === undefined, "the signed token is a reader's, who may not write");
  demand(typeof token === "string" && TOKEN.test(token) && +token < 2 ** 53, "its token is not possible");
  demand(typeof id === "string" && /^[0-9a-f]{32}$/.test(id) && typeof sub === "string", "no such holder");
  demand(Number.isSafeInteger(iat) && Number(iat) <= Date.now() / 1e3 + LEEWAY, "its date is not possible");
  return { lock, token: BigInt(token), id, subject: sub, issued: Number(iat) };
}

function demand(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new InvalidToken(otherwise);
}

function parsed(part: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(Buffer.from(part, "base64url").toString())) as Record<string, unknown>;
  } catch {
    throw new InvalidToken("this is no signed token");
  }
}
