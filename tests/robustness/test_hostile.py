"""Hostile clients and a hostile service, for a short time: see `tests.robustness.hostile`."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from lockfast.engines.remote.frames import TEXT, head
from tests.robustness.hostile import framing, run

LATE = "passed its deadline"
"""Other tests run beside this one, and take the processors from it."""


@pytest.mark.timeout(300)
def test_messages_that_are_spoiled_in_both_directions_harm_nobody() -> None:
    said: list[str] = []
    run.run(8.0, 1, said.append, "service")
    assert [line for line in said if "VIOLATION" in line and LATE not in line] == [], said
    assert sum("leases at the end" in line for line in said) == len(run.KINDS)


def test_frames_of_clients_and_of_the_service_are_found() -> None:
    async def frames(raw: bytes) -> list[framing.Frame]:
        stream = asyncio.StreamReader()
        stream.feed_data(raw)
        stream.feed_eof()
        found = []
        while (frame := await framing.websocket(stream)) is not None:
            found.append(frame)
        return found

    message = json.dumps({"t": "hello", "more": "x" * 200}).encode()
    mask = os.urandom(4)
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(message))
    begun = b"GET /v1/connect HTTP/1.1\r\nHost: a\r\n\r\n"
    asked = b"\x81\xfe" + len(message).to_bytes(2, "big") + mask + masked
    told = head(TEXT, len(message)) + message
    (start, request, reply, short) = asyncio.run(frames(begun + asked + told + b"\x81\x02{}"))
    assert start == (begun, len(begun))  # nothing of it is content
    assert request.raw[request.body :] == reply.raw[reply.body :] == message
    assert request.raw[4:8] == bytes(4)
    assert short == (b"\x81\x02{}", 2)
