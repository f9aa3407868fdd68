// The identity of a client: the secret that proves it, its epochs, and the ids of its claims.
import { createHmac, randomBytes } from "node:crypto";

const HALF = 20; // bits
const ROUNDS = 4;

/** The identity of one client. Each has a new secret, because two with one secret would share their ids. */
export class Identity {
  readonly secret = randomBytes(32).toString("base64url");
  /** The first 22 digits of all its ids, a hash of the secret. The first replica tells it. */
  client = "";
  /** The number of the latest connection that has greeted. Nothing may be sent on an earlier one. */
  epoch = 0;
  readonly #keys = Array.from({ length: ROUNDS }, () => randomBytes(16));
  #count = 0;

  /** Return an id that is new, and that nobody can predict. A Feistel network permutes a counter. */
  newId(): string {
    const number = this.#count++;
    let left = Math.floor(number / 2 ** HALF) % 2 ** HALF;
    let right = number % 2 ** HALF;
    for (const key of this.#keys) {
      const mixed = createHmac("sha256", key).update(String(right)).digest().readUInt32BE() >>> (32 - HALF);
      [left, right] = [right, left ^ mixed];
    }
    return this.client + (left * 2 ** HALF + right).toString(16).padStart(10, "0");
  }
}
