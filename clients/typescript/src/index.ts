// The public names of the client.
export type { Options } from "./acquire.js";
export { type Client, connect, type Settings } from "./client.js";
export * from "./errors.js";
export type { Lease } from "./claim.js";
export { InvalidToken, type KeySet, type Proven, verify } from "./signed.js";
