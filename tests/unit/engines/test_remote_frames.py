"""The frames of WebSocket: every byte of a peer is checked before anything is kept for it."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from lockfast.engines.remote import frames
from lockfast.engines.remote.frames import (
    BINARY,
    CLOSE,
    CONT,
    PING,
    PONG,
    TEXT,
    Event,
    Masker,
    Reader,
    Violation,
    closed,
    closing,
    head,
)

LARGEST = 70_000
KEY = b"\x01\x02\x03\x04"


def of_client(opcode: int, payload: bytes = b"", *, final: bool = True) -> bytes:
    """Return a frame as the library writes it, with a mask."""
    return Frame(Opcode(opcode), payload, fin=final).serialize(mask=True, extensions=[])


def read(data: bytes, *, masked: bool = True) -> list[Event]:
    found = Reader(LARGEST, masked=masked).feed(data)
    return [each for each in found if each != (CONT, b"")]


def refused(data: bytes, *, masked: bool = True) -> int:
    """Return the code of the violation that these bytes are."""
    with pytest.raises(Violation) as caught:
        read(data, masked=masked)
    return caught.value.code


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, LARGEST])
def test_a_message_of_any_length_arrives(size: int) -> None:
    message = b"x" * size
    assert read(of_client(TEXT, message)) == [(TEXT, message)]
    assert read(Masker().frame(TEXT, message)) == [(TEXT, message)]
    assert read(head(TEXT, size) + message, masked=False) == [(TEXT, message)]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536])
def test_the_library_reads_what_is_written(size: int) -> None:
    message = b"x" * size
    frame = Frame(Opcode.TEXT, message)
    assert head(TEXT, size) + message == frame.serialize(mask=False, extensions=[])


@given(
    messages=st.lists(st.tuples(st.sampled_from([TEXT, BINARY, PING, PONG]), st.integers(0, 300))),
    cuts=st.lists(st.integers(1, 40)),
)
def test_it_does_not_matter_how_the_bytes_are_cut(
    messages: list[tuple[int, int]], cuts: list[int]
) -> None:
    sent = [(kind, b"y" * min(size, 125 if kind >= CLOSE else 300)) for kind, size in messages]
    data = b"".join(of_client(*each) for each in sent)
    reader, found = Reader(LARGEST, masked=True), []
    for cut in cuts:
        found += reader.feed(data[:cut])
        data = data[cut:]
    for each in data:
        found += reader.feed(bytes([each]))
    assert found == sent


def test_fragments_are_put_together_with_control_frames_between_them() -> None:
    data = (
        of_client(TEXT, b"a", final=False)
        + of_client(PING, b"p")
        + of_client(CONT, b"b", final=False)
        + of_client(CONT, b"c")
        + of_client(TEXT, b"d")
    )
    assert read(data) == [(PING, b"p"), (TEXT, b"abc"), (TEXT, b"d")]


def test_keys_are_used_once_and_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def urandom(count: int) -> bytes:
        drawn.append(count)
        return bytes(range(256)) * (count // 256)

    monkeypatch.setattr(os, "urandom", urandom)
    masker = Masker()
    sent = [masker.frame(TEXT, b"m") for _ in range(frames.KEYS + 1)]
    assert sent[0][2:6] == b"\0\1\2\3"
    assert sent[1][2:6] == b"\4\5\6\7"
    assert drawn == [4 * frames.KEYS] * 2


VIOLATIONS = {
    "no mask": (b"\x81\x01x", 1002),
    "a reserved bit": (b"\xc1\x80" + KEY, 1002),
    "an unknown opcode": (b"\x83\x80" + KEY, 1002),
    "an unknown control frame": (b"\x8b\x80" + KEY, 1002),
    "a ping in fragments": (b"\x09\x80" + KEY, 1002),
    "a ping of 126 bytes": (b"\x89\xfe\x00\x7e" + KEY, 1002),
    "the end of nothing": (b"\x80\x80" + KEY, 1002),
    "text within a message": (b"\x01\x80" + KEY + b"\x81\x80" + KEY, 1002),
    "bytes within a message": (b"\x01\x80" + KEY + b"\x82\x80" + KEY, 1002),
    "not UTF-8": (of_client(TEXT, b"\xff"), 1007),
    "not UTF-8 together": (
        of_client(TEXT, b"\xc3", final=False) + of_client(CONT, b"("),
        1007,
    ),
    "too large": (b"\x81\xff" + (LARGEST + 1).to_bytes(8, "big"), 1009),  # before its payload
    "far too large": (b"\x81\xff" + b"\xff" * 8, 1009),
    "too many bytes": (b"\x82\xff" + (LARGEST + 1).to_bytes(8, "big"), 1009),
}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violation_is_found(name: str) -> None:
    data, code = VIOLATIONS[name]
    assert refused(data) == code


def test_a_server_must_not_mask() -> None:
    assert refused(of_client(TEXT, b"x"), masked=False) == 1002


def test_fragments_are_not_kept_beyond_the_largest_message() -> None:
    part = b"x" * (LARGEST // 2)
    first = of_client(BINARY, part, final=False) + of_client(CONT, part, final=False)
    assert read(first) == []
    assert refused(first + of_client(CONT, b"x")) == 1009


def test_empty_fragments_take_no_memory() -> None:
    reader = Reader(LARGEST, masked=True)
    reader.feed(of_client(TEXT, final=False))
    assert reader.feed(of_client(CONT, final=False) * 10_000) == [(CONT, b"")] * 10_000
    assert len(reader._parts) == 0


def test_text_that_is_cut_inside_a_letter_is_text() -> None:
    letter = "ü".encode()
    data = of_client(TEXT, letter[:1], final=False) + of_client(CONT, letter[1:])
    assert read(data) == [(TEXT, letter)]


@pytest.mark.parametrize("code", [1000, 1001, 1003, 1007, 1011, 1014, 3000, 4999])
def test_a_close_frame_is_read(code: int) -> None:
    assert closed(closing(code, "why")) == (code, "why")


def test_a_close_frame_may_be_empty() -> None:
    assert closed(b"") == (1005, "")


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 2999, 5000])
def test_a_close_frame_has_a_known_code(code: int) -> None:
    with pytest.raises(Violation):
        closed(code.to_bytes(2, "big"))


def test_half_a_code_is_none() -> None:
    with pytest.raises(Violation):
        closed(b"\x03")


def test_the_reason_of_a_close_frame_is_text() -> None:
    with pytest.raises(Violation) as caught:
        closed(b"\x03\xe8\xff")
    assert caught.value.code == 1007


def test_a_long_reason_is_cut() -> None:
    assert len(closing(1000, "x" * 200)) == 125
