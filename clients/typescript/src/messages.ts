// The messages of the protocol: what is sent, and the check of everything that is received.

export const VERSION = 1;
export const LARGEST_REPLY = 2 ** 26; // bytes of a message of a replica
export const CLIENT = 22; // digits of an id that name its client
const LONGEST_PAYLOAD = 2 ** 17; // characters of base64

/** A claim, as it is sent. Every copy has the same content, except for `ticket` and `granted`. */
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

/** A request of this client, without the number and the patience that its line gives it. */
export type Request =
  | { t: "claim" | "renew" | "resign"; asks: [Asked]; urgent?: boolean; doubt?: boolean }
  | { t: "sign"; ask: Asked; audience: string };

/** Checks a value, and returns it with its type. Fields that a later version adds are left out. */
type Check<T> = (value: unknown) => T;
type Shape = Record<string, Check<unknown>>;
type Checked<S extends Shape> = { [K in keyof S]: ReturnType<S[K]> };

function fail(what: string): never {
  throw new Error(`malformed message: ${what} expected`);
}

const bool: Check<boolean> = (value) => (typeof value === "boolean" ? value : fail("true or false"));

const number = (low: number, high: number): Check<number> => (value) =>
  typeof value === "number" && value >= low && value <= high ? value : fail(`${low} to ${high}`);
const whole: Check<number> = (value) =>
  Number.isSafeInteger(value) ? number(0, 2 ** 53)(value) : fail("a whole number");
const text = (form: RegExp, longest = 4_000): Check<string> => (value) =>
  typeof value === "string" && value.length <= longest && form.test(value) ? value : fail("text");
/** What may be left out. */
const or = <T, O>(check: Check<T>, otherwise: O): Check<T | O> => (value) =>
  value === undefined || value === otherwise ? otherwise : check(value);
/** A list for the one claim of a request. */
const one = <T>(check: Check<T>): Check<T> => (value) =>
  Array.isArray(value) && value.length === 1 ? check(value[0]) : fail("a list of one");

function object<S extends Shape>(shape: S): Check<Checked<S>> {
  return (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) fail("an object");
    const fields = new Map<string, unknown>(Object.entries(value));
    const checked = Object.entries(shape).map(([key, check]) => [key, check(fields.get(key))]);
    return Object.fromEntries(checked) as Checked<S>;
  };
}

const seconds = number(0, 1e6);
const now = or(number(-1e11, 1e11), null);
const stood = object({
  ticket: whole,
  granted: or(bool, false),
  left: or(seconds, 0),
  blocker: or(object({ payload: text(/^[\w+/=]*$/, LONGEST_PAYLOAD) }), null),
  recheck: or(seconds, null),
});
const fault = object({ kind: text(/^/), why: text(/^/), sent: or(bool, true) });
const faults = or((value) => (Array.isArray(value) && value.length === 0 ? null : one(fault)(value)), null);
const REPLIES = {
  welcome: object({ v: whole, client: text(/^[0-9a-f]{22}$/), now }),
  said: object({ n: whole, results: one(or(stood, null)), now, faults }),
  gone: object({ n: whole, results: one(bool), faults }),
  signed: object({ n: whole, token: text(/^[\w.-]+$/, 8_192) }),
  failed: object({ n: whole, fault }),
  woken: object({ id: text(/^[0-9a-f]{0,32}$/), granted: or(bool, false) }),
  goaway: object({}),
};
type Replies = { [T in keyof typeof REPLIES]: ReturnType<(typeof REPLIES)[T]> };

export type Stood = ReturnType<typeof stood>;
export type Wake = Replies["woken"];
export type Reply<T extends keyof Replies = keyof Replies> = { [K in T]: { t: K } & Replies[K] }[T];
/** The kinds of replies that answer a request. */
export type Answer = "said" | "gone" | "signed";

/** Parse a message of a replica. Throws an error if it is none: it ends the connection. */
export function parse(frame: string): Reply {
  const value: unknown = JSON.parse(frame);
  const { t } = object({ t: text(/^/) })(value);
  if (!Object.hasOwn(REPLIES, t)) fail("a known type");
  return { ...REPLIES[t as keyof Replies](value), t } as Reply;
}
