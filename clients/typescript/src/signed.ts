// Signed tokens, at the resource: the check of one by the service's public keys.
import { createPublicKey, type JsonWebKey, verify as verified } from "node:crypto";
import { LockfastError } from "./errors.js";

const JWS = /^[\w-]+\.[\w-]+\.[\w-]+$/;
const LONGEST = 8_192;
const LEEWAY = 60; // seconds by which the clocks of the service and of this machine may differ

/** The service's public keys: the contents of its `/.well-known/jwks.json`. */
export interface KeySet {
  keys: (JsonWebKey & { kid?: string })[];
}

/**
 * What a signed token says. Refuse it if the resource has seen a higher `token`, or the same one with another `id`:
 * after a failover, two leases can have the same token.
 */
export interface Proven {
  lock: string;
  token: bigint;
  id: string;
  /** Who the holder is for the service. Empty if it knows no subjects. */
  subject: string;
  issued: number;
}

/** The signed token is forged, malformed, a reader's, for another lock or audience, or its key is not known. */
export class InvalidToken extends LockfastError {}

/** Return what a signed token says. Throws `InvalidToken`. `lock` is what guards the resource. */
export function verify(signed: string, keys: KeySet, lock: string, audience: string): Proven {
  if (signed.length > LONGEST || !JWS.test(signed)) throw new InvalidToken("this is no signed token");
  const [head = "", body = "", signature = ""] = signed.split(".");
  const header = parsed(head);
  if (header["alg"] !== "EdDSA" || header["typ"] !== "fencing+jwt" || "crit" in header) {
    throw new InvalidToken("this is no signed token of a lock");
  }
  const key = keys.keys.find((each) => each.kid === header["kid"] && each.crv === "Ed25519");
  if (key === undefined) throw new InvalidToken("the signed token names a key that is not known");
  const data = Buffer.from(`${head}.${body}`);
  if (!verified(null, data, createPublicKey({ key, format: "jwk" }), Buffer.from(signature, "base64url"))) {
    throw new InvalidToken("the signature is not valid");
  }
  const said = parsed(body);
  const { aud, lock: name, token, id, sub = "", iat } = said;
  if (aud !== audience || name !== lock) throw new InvalidToken("the signed token is for another lock or audience");
  // Several readers hold the lock at once, and the highest ticket among them would refuse the others.
  if ("floor" in said) throw new InvalidToken("the signed token is a reader's, who may not write");
  if (typeof token !== "string" || !/^[1-9][0-9]{0,15}$/.test(token) || BigInt(token) > Number.MAX_SAFE_INTEGER
    || typeof id !== "string" || !/^[0-9a-f]{32}$/.test(id)
    || typeof sub !== "string" || !Number.isSafeInteger(iat) || Number(iat) > Date.now() / 1e3 + LEEWAY) {
    throw new InvalidToken("the signed token has a field that is not possible");
  }
  return { lock, token: BigInt(token), id, subject: sub, issued: Number(iat) };
}

function parsed(part: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(Buffer.from(part, "base64url").toString())) as Record<string, unknown>;
  } catch {
    throw new InvalidToken("this is no signed token");
  }
}
