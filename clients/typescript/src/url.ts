// The addresses of the replicas, read from lockfast:// URLs.

/** One replica, or a load balancer in front of some. */
export interface Replica {
  /** Its host and port. */
  readonly at: string;
  readonly url: URL;
  /** The API key. Empty if the URL has none. */
  readonly key: string;
}

const FORM = /^lockfast(s?):\/\/(?::([^@/]*)@)?([^@/?#]*)([^@?#]*)$/;

/** Read one URL with its replicas, or several. */
export function replicasOf(urls: string | readonly string[]): Replica[] {
  return [urls].flat().flatMap((url) => {
    const [, secure, key = "", hosts, path = ""] = FORM.exec(url) ?? [];
    if (hosts === undefined) throw new TypeError("write the URL as lockfasts://:KEY@HOST:PORT,HOST:PORT");
    return hosts.split(",").map((host) => {
      const at = /:\d+$/.test(host) ? host : `${host || "localhost"}:7420`;
      const address = new URL(`ws${secure}://${at}${path.replace(/\/+$/, "")}/v1/connect`);
      return { at, url: address, key: decodeURIComponent(key) };
    });
  });
}
