"""The program of the page on a Kubernetes Deployment, whose work hangs."""

from __future__ import annotations

import threading

import worker  # type: ignore[import-not-found]  # the page's, by its folder

if __name__ == "__main__":
    worker.STUCK = 2.0
    worker.turn = lambda _lease: threading.Event().wait()
    worker.main()
