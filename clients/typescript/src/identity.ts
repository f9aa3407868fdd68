// The identity of a client: the secret that proves it, its epochs, and the ids of its claims.
import { createHmac, randomBytes } from "node:crypto";

const HALF = 20; // bits

/** The identity of one client. Each has a new secret, because two with one secret would share their ids. */
export class Identity {
  readonly secret = randomBytes(32).toString("base64url");
  /** The first 22 digits of all its ids, a hash of the secret. The first replica tells it. */
  client = "";
  /** The number of the latest connection that has greeted. Nothing may be sent on an earlier one. */
  epoch = 0;
  #count = 0;

  /** Return an id that is new, and that nobody can predict. A Feistel network permutes a counter. */
  newId(): string {
    let left = Math.floor(this.#count / 2 ** HALF) % 2 ** HALF;
    let right = this.#count++ % 2 ** HALF;
    for (const round of ["1", "2", "3", "4"]) {
      const mixed = createHmac("sha256", this.secret).update(`${round} ${right}`).digest().readUInt32BE();
      [left, right] = [right, left ^ (mixed >>> (32 - HALF))];
    }
    return this.client + (left * 2 ** HALF + right).toString(16).padStart(10, "0");
  }
}
