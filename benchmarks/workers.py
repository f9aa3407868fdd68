"""Worker processes: each does one thing when told, and answers with what it measured."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import Any

CONTEXT = multiprocessing.get_context("spawn")  # a fork would share the parent's sockets
Main = Callable[..., None]
"""Takes its end of a pipe, then the arguments it was started with."""
PATIENCE = 120.0


@contextmanager
def worker(main: Main, *args: object) -> Iterator[Connection]:
    """Run `main` in a process of its own, ready when its first message has come.

    It ends when its pipe is closed; if it does not, it is killed.
    """
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=main, args=(theirs, *args), daemon=True)
    process.start()
    theirs.close()
    try:
        answer(ours)
        yield ours
    finally:
        ours.close()
        process.join(10)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()


@contextmanager
def two(main: Main, *args: object) -> Iterator[tuple[Connection, Connection]]:
    """Run two workers of a kind; the first argument tells them apart."""
    with ExitStack() as stack:
        first, second = (stack.enter_context(worker(main, i, *args)) for i in range(2))
        yield first, second


def answer(pipe: Connection, patience: float = PATIENCE) -> Any:  # noqa: ANN401  # pickled
    """Wait for a worker's next message; one that died or hangs is an error here."""
    if not pipe.poll(patience):
        raise TimeoutError("a worker process did not answer")
    return pipe.recv()


def all_do(pipes: Sequence[Connection], message: object, patience: float = PATIENCE) -> list[Any]:
    """Send a message to several workers, and wait for the answers of all."""
    for pipe in pipes:
        pipe.send(message)
    return [answer(pipe, patience) for pipe in pipes]


def orders(pipe: Connection) -> Iterator[Any]:
    """In the worker: say that it is ready, then give every message until the pipe is closed."""
    pipe.send("ready")
    while True:
        try:
            yield pipe.recv()
        except EOFError:
            return
