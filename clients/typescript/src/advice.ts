// What to do about a connection that failed, for the end of its error message.

const UNTRUSTED = [
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
];

/** Return what to do, as a sentence after the message; empty if nobody knows. */
export function advice({ code = "" }: NodeJS.ErrnoException, secure: boolean): string {
  if (UNTRUSTED.includes(code)) return ". Name the file of the authority that signed the certificate by caFile";
  if (code === "CERT_HAS_EXPIRED") return ". Renew the certificate of the service, and send HUP to each replica";
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") return ". Write a host into the URL for which the certificate was made";
  if (code === "EPROTO" || code === "ERR_SSL_WRONG_VERSION_NUMBER") return ". The service has no TLS: write lockfast://";
  if (code === "ECONNREFUSED") return ". Start `lockfast serve` there, or correct the host and the port in the URL";
  if (code === "ECONNRESET" && !secure) return ". Does the service have TLS? Then write lockfasts://";
  return "";
}
