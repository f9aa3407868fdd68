// The clock that leases are measured by: it never goes back, and counts the time of a suspended machine.

/**
 * On Linux, `performance.now()` stands still while the machine is suspended, and `Date.now()` does
 * not, but people set it. So whenever the wall clock has gained on the steady one, this clock gains
 * as much. A lease then seems older than it is, or as old as it is, and never younger.
 */
export class Clock {
  #gained = 0;
  #ahead = Date.now() / 1e3 - this.steady();

  /** Return seconds that do not count a suspend. */
  steady(): number {
    return performance.now() / 1e3;
  }

  /** Return seconds for the validity of leases. */
  now(): number {
    // This process may be interrupted between two readings. So the wall clock is ahead by `least` or more.
    const before = this.steady();
    const wall = Date.now() / 1e3;
    const steady = this.steady();
    const least = wall - steady;
    if (least > this.#ahead) {
      this.#gained += least - this.#ahead;
      this.#ahead = least;
    } else if (wall - before < this.#ahead - 0.01) {
      this.#ahead = least; // the wall clock was set back
    }
    return steady + this.#gained;
  }
}

const LONGEST = 2 ** 31 - 1; // milliseconds of a timer

/** Call back after some seconds. Bytes that have arrived by then are read first. */
export function later(seconds: number, call: () => void): NodeJS.Timeout {
  return setTimeout(() => setImmediate(call), Math.min(Math.max(seconds, 0) * 1e3, LONGEST));
}

/** Wait for `work`, at most for some seconds. Return undefined if it has not ended by then. */
export async function within<T>(work: Promise<T>, seconds: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const end = new Promise<undefined>((done) => (timer = later(seconds, () => done(undefined))));
  return await Promise.race([work, end]).finally(() => clearTimeout(timer));
}

/** Wait for some seconds. */
export async function sleep(seconds: number): Promise<void> {
  await new Promise<void>((done) => later(seconds, done));
}
