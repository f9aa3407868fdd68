// The errors of this client. Each names the lock or the replica, and says what to do next.

/** Why a lease is not held any more. */
export type Loss = "expired" | "unreachable" | "gone" | "released";

const WORDS: Record<Loss, string> = {
  expired: "it expired in this process, which was paused or too slow to renew it",
  unreachable: "the service could not be reached to renew it in time",
  gone: "the engine no longer has it, because it expired, was broken, or the data was lost",
  released: "it was released",
};

/** The base class of all errors of this client. */
export class LockfastError extends Error {
  constructor(message: string) {
    super(plain(message.slice(0, 4_000)));
    this.name = new.target.name;
  }
}

/** The lock was not granted before the timeout. The caller does not hold it. */
export class NotAcquired extends LockfastError {
  constructor(name: string, timeout: number, holder: string) {
    const busy = `"${name}" was not acquired within ${timeout} s: held by ${holder}`;
    super(`${busy}. Wait longer (timeout), or ask the holder to release it.`);
  }
}

/** A lease ended before its holder released it. Another process may hold the lock now. */
export class LeaseLost extends LockfastError {
  readonly reason: Loss;

  constructor(name: string, token: bigint, reason: Loss) {
    const lease = `the lease on "${name}" (token ${token}) is not held: ${WORDS[reason]}`;
    super(`${lease}. Stop writing, and acquire the lock again to continue.`);
    this.reason = reason;
  }
}

/** The client was closed. */
export class ClientClosed extends LockfastError {}

/** The service or its engine rejected the request. A repetition has the same result. */
export class EngineRefused extends LockfastError {}

/** No answer came in time, or the connection failed. */
export class EngineUnavailable extends LockfastError {
  /** Whether the request may have been applied. False: nothing can have happened. */
  readonly sent: boolean;

  constructor(message: string, sent: boolean) {
    super(message);
    this.sent = sent;
  }
}

/** Return text of other processes with each unprintable character escaped, for logs and terminals. */
export function plain(text: string): string {
  const escaped = (each: string) => `\\u{${each.codePointAt(0)?.toString(16)}}`;
  return text.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, escaped);
}
