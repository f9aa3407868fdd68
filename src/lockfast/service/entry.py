"""A claim that waits to be sent to the engine, and where the answer to it goes."""

from __future__ import annotations

from typing import Protocol

from lockfast.port import Ask, Standing

Answer = Standing | bool | Exception | None


class Answers(Protocol):
    """Collects the answers to the claims of one request."""

    def put(self, at: int, answer: Answer) -> None:
        """Take the answer to one claim. It is called once for each, and never raises."""

    def unwanted(self) -> bool:
        """Return whether nobody needs this to be done any more, because the client has left."""
        ...


class Entry:
    """One claim of a request."""

    __slots__ = ("answers", "arrived", "ask", "at", "deadline", "urgent")

    def __init__(
        self, ask: Ask, arrived: float, deadline: float, answers: Answers, at: int
    ) -> None:
        """Take a claim. `at`: its place in the request. Times are of the local clock."""
        self.ask = ask
        self.arrived = arrived
        self.deadline = deadline
        self.answers = answers
        self.at = at
        self.urgent = False

    def put(self, answer: Answer) -> None:
        """Answer it."""
        self.answers.put(self.at, answer)
