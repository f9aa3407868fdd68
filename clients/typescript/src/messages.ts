// The messages of the protocol: what is sent, and the check of everything that is received.

export const VERSION = 1;
export const AT_ONCE = 64; // claims in one message
export const LARGEST_REPLY = 2 ** 26; // bytes of a message of a replica
export const CLIENT = 22; // digits of an id that name its client
export const SHORTEST_TTL = 0.05;
export const LONGEST_TTL = 86_400;
export const LONGEST_WAIT = 10; // seconds for which the engine keeps a waiter that does not renew
const LONGEST_TEXT = 4_000;
const LONGEST_PAYLOAD = 2 ** 16;
const LONGEST_RECORD = 4_096;

/** A message that is not one of the protocol. It ends the connection. */
export class Malformed extends Error {}

/** Checks a value, and returns it with its type. Fields that a later version adds are left out. */
type Check<T> = (value: unknown) => T;
type Shape = Record<string, Check<unknown>>;
type Checked<S extends Shape> = { [K in keyof S]: ReturnType<S[K]> };

function fail(what: string): never {
  throw new Malformed(`malformed message: ${what} expected`);
}
const bool: Check<boolean> = (value) => (typeof value === "boolean" ? value : fail("true or false"));
const within = (low: number, high: number): Check<number> => (value) =>
  typeof value === "number" && value >= low && value <= high ? value : fail(`a number from ${low} to ${high}`);
const number: Check<number> = (value) => (Number.isSafeInteger(value) ? within(0, 2 ** 53)(value) : fail("a number"));
const seconds = within(0, 1e6);
const instant = within(-1e11, 1e11);
const text = (form: RegExp | number): Check<string> => (value) =>
  typeof value === "string" && (typeof form === "number" ? value.length <= form : form.test(value)) ? value : fail("text");
const id = text(/^[0-9a-f]{32}$/);
const base64 = text(/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/);
const bytes = (most: number): Check<Buffer> => (value) => {
  const found = Buffer.from(base64(value), "base64");
  return found.length <= most ? found : fail(`at most ${most} bytes`);
};
const list = <T>(check: Check<T>, most: number): Check<T[]> => (value) =>
  Array.isArray(value) && value.length <= most ? value.map(check) : fail(`a list of at most ${most}`);
const or = <T, O>(check: Check<T>, otherwise: O): Check<T | O> => (value) =>
  value === undefined ? otherwise : check(value);
const nullable = <T>(check: Check<T>): Check<T | null> => (value) => (value === null ? null : check(value));
const object = <S extends Shape>(shape: S): Check<Checked<S>> => (value) => {
  if (typeof value !== "object" || value === null || Array.isArray(value)) fail("an object");
  const fields = new Map<string, unknown>(Object.entries(value as object));
  return Object.fromEntries(Object.entries(shape).map(([key, check]) => [key, check(fields.get(key))])) as Checked<S>;
};

const stood = object({
  ticket: number,
  granted: or(bool, false),
  left: or(seconds, 0),
  blocker: or(nullable(object({ id, ticket: number, payload: bytes(LONGEST_PAYLOAD) })), null),
  recheck: or(nullable(seconds), null),
});
const fault = object({
  kind: text(32),
  why: text(LONGEST_TEXT),
  sent: or(bool, true),
  at: or(number, 0),
});
const listed = object({
  name: text(512),
  id,
  ticket: number,
  granted: bool,
  left: seconds,
  payload: or(bytes(LONGEST_PAYLOAD), Buffer.alloc(0)),
});
const cursor = or(nullable(text(8_192)), null);
const faults = or(list(fault, AT_ONCE), []);
const now = or(nullable(instant), null);
const REPLIES = {
  welcome: object({ v: number, client: text(/^[0-9a-f]{22}$/), now, moves: or(bool, true) }),
  said: object({ n: number, results: list(nullable(stood), AT_ONCE), now, faults }),
  gone: object({ n: number, results: list(bool, AT_ONCE), faults }),
  records: object({ n: number, records: list(bytes(LONGEST_RECORD), 16) }),
  page: object({ n: number, entries: list(listed, LARGEST_REPLY), cursor }),
  signed: object({ n: number, token: text(/^[\w.-]{1,8192}$/) }),
  failed: object({ n: number, fault }),
  woken: object({ id: text(/^[0-9a-f]{0,32}$/), granted: or(bool, false) }),
  goaway: object({}),
};
type Replies = { [T in keyof typeof REPLIES]: ReturnType<(typeof REPLIES)[T]> };

export type Stood = ReturnType<typeof stood>;
export type Fault = ReturnType<typeof fault>;
export type Listed = ReturnType<typeof listed>;
export type Wake = Replies["woken"];
export type Reply<T extends keyof Replies = keyof Replies> = { [K in T]: { t: K } & Replies[K] }[T];
/** The kinds of replies that answer a request. */
export type Answer = "said" | "gone" | "records" | "page" | "signed";

/** A claim, as it is sent. */
export interface Asked {
  id: string;
  name: string;
  ttl: number;
  queue: boolean;
  not_after: number | null;
  ticket: number;
  granted: boolean;
  payload: string;
}

/** A request of this client, without the number that its line gives it. */
export type Request =
  | { t: "claim" | "renew" | "resign"; within: number; asks: [Asked]; urgent?: boolean; doubt?: boolean }
  | { t: "sign"; within: number; ask: Asked; audience: string }
  | { t: "records"; within: number; name: string }
  | { t: "inspect"; names: string; cursor: string | null; exact: boolean };

/** Parse a message of a replica. Throws `Malformed` if it is none. */
export function parse(frame: string): Reply {
  let value: unknown;
  try {
    value = JSON.parse(frame);
  } catch {
    fail("JSON");
  }
  const { t } = object({ t: text(32) })(value);
  if (!Object.hasOwn(REPLIES, t)) fail("a known type");
  return { ...REPLIES[t as keyof Replies](value), t } as Reply;
}
