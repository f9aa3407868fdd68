// The public names of the client.
export type { Options } from "./acquire.js";
export { type Client, connect, type Settings } from "./client.js";
export * from "./errors.js";
export type { Lease } from "./lease.js";
export { InvalidToken, type KeySet, type Proven, verify } from "./signed.js";
export type { Login } from "./url.js";
export type { Who } from "./who.js";
