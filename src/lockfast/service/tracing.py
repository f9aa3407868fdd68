"""Spans of claims whose clients trace: wraps the answers of a request, if somebody collects spans.

The context of the client's span comes with the claim, as W3C's `traceparent`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from lockfast.engines.remote.messages import Asked
from lockfast.service.entry import Answer, Answers


class Spans(Protocol):
    """Records spans. Its method never raises."""

    def record(self, request: str, parent: str, began: int, answer: Answer) -> None:
        """Record a span that began at this time, in nanoseconds, and ends now."""


class Traced:
    """The answers to a request. Each answer to a claim with a trace ends a span."""

    __slots__ = ("_answers", "_asks", "_began", "_request", "_spans")

    def __init__(self, answers: Answers, asks: Sequence[Asked], request: str, spans: Spans) -> None:
        """Begin the spans now."""
        self._answers = answers
        self._asks = asks
        self._request = request
        self._spans = spans
        self._began = time.time_ns()

    def unwanted(self) -> bool:
        """Return what the answers return."""
        return self._answers.unwanted()

    def put(self, at: int, answer: Answer) -> None:
        """Pass on the answer to one claim, and record a span."""
        self._answers.put(at, answer)
        trace = self._asks[at].trace
        if trace:
            self._spans.record(self._request, trace, self._began, answer)
