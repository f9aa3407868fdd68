import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import lockfast

STUCK = 60.0  # seconds: longer than the longest turn
stopping = threading.Event()
last_turn = time.monotonic()


def turn(lease: lockfast.Lease) -> None:
    """Do one piece of the work that only the leader may do."""
    lease.ensure_held()
    print(f"working, term {lease.token}", flush=True)


class Probe(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        stuck = time.monotonic() - last_turn > STUCK
        self.send_response(503 if self.path == "/livez" and stuck else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing: the kubelet asks every few seconds."""


def main() -> None:
    global last_turn  # the probe reads it
    # In a container Python is process 1, which SIGTERM does not end without a handler.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    probes = ThreadingHTTPServer(("", int(os.environ.get("PORT", "8080"))), Probe)
    threading.Thread(target=probes.serve_forever, daemon=True).start()
    client = lockfast.connect()  # uses LOCKFAST_URL
    election = client.election(f"{os.environ['NAMESPACE']}/worker", ttl=15)
    candidacy = election.run(
        lambda lease: print(f"leading, term {lease.token}", flush=True),
        lambda: print("not leading", flush=True),
        value=os.environ["POD"],
    )
    with client, candidacy:  # at the end, another pod leads immediately
        while not stopping.wait(1):
            last_turn = time.monotonic()
            if lease := candidacy.lease:
                try:
                    turn(lease)
                except lockfast.LeaseLost as error:
                    print(error, flush=True)


if __name__ == "__main__":
    main()
