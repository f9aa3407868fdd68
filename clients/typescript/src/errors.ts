// The errors of this client. Each names the lock, and its holder or token, and says what to do next.

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
  constructor(readonly lock: string, readonly waited: number, readonly holder: string) {
    super(`"${lock}" was not acquired within ${waited.toPrecision(3)} s: held by ${holder}. `
      + "Wait longer (timeout), or ask the holder to release it.");
  }
}

/** A lease ended before its holder released it. Another process may hold the lock now. */
export class LeaseLost extends LockfastError {
  /** `broken`: who broke the lock and why, if that is how it was lost and the engine has the record. */
  constructor(readonly lock: string, readonly token: bigint, readonly reason: Loss, readonly broken = "") {
    super(`the lease on "${lock}" (token ${token}) is not held: ${broken ? `it was ${broken}` : WORDS[reason]}. `
      + "Stop writing, and acquire the lock again to continue.");
  }
}

/** The client was closed. */
export class ClientClosed extends LockfastError {}

/** The service or its engine rejected the request. A repetition has the same result. */
export class EngineRefused extends LockfastError {}

/** No answer came in time, or the connection failed. */
export class EngineUnavailable extends LockfastError {
  /** `sent`: whether the request may have been applied. False: nothing can have happened. */
  constructor(message: string, readonly sent: boolean) {
    super(message);
  }
}

/** Return text of other processes with each unprintable character escaped, for logs and terminals. */
export function plain(text: string): string {
  return text.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, (each) => JSON.stringify(each).slice(1, -1).replace(/[^ -~]/gu,
    (raw) => `\\u{${raw.codePointAt(0)?.toString(16)}}`));
}
