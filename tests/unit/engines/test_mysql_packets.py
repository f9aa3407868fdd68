"""The bytes of a MySQL server: read the same however they are cut, checked, and within limits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lockfast.engines.mysql import packets, results
from lockfast.engines.mysql.packets import BrokenProtocol, Packets
from lockfast.engines.mysql.results import MOST_COLUMNS, MOST_ROWS, Reply, Row, ServerError, number

COLUMN = b"\x03def" + bytes(20)
END = b"\xfe\0\0\2\0"
MORE = b"\xfe\0\0\x0a\0"
OK = b"\0\0\0\2\0\0\0"
CELLS = st.none() | st.binary(max_size=12) | st.binary(min_size=250, max_size=260)


def framed(*payloads: bytes) -> bytes:
    """Give the packets of a server, with the numbers that follow a request."""
    return b"".join(
        len(payload).to_bytes(3, "little") + bytes([(nth + 1) % 256]) + payload
        for nth, payload in enumerate(payloads)
    )


def written(length: int) -> bytes:
    """Write a number as the protocol does."""
    if length < 0xFB:
        return bytes([length])
    for first, width in results.WIDTHS.items():
        if length < 1 << 8 * width:
            return bytes([first]) + length.to_bytes(width, "little")
    raise AssertionError(length)


def row(cells: Row) -> bytes:
    return b"".join(b"\xfb" if cell is None else written(len(cell)) + cell for cell in cells)


def result(rows: list[Row], columns: int, end: bytes = END) -> list[bytes]:
    return [written(columns), *[COLUMN] * columns, END, *map(row, rows), end]


def arrived(raw: bytes, cuts: list[int]) -> tuple[Packets, Reply, bool]:
    """Read a reply that arrives in pieces, and say whether it is complete."""
    arriving, reply = Packets(), Reply()
    arriving.framed(b"\x03SELECT 1")
    places = sorted({0, len(raw), *(cut % (len(raw) + 1) for cut in cuts)})
    complete = False
    for start, stop in pairwise(places):
        if complete:
            arriving.feed(raw[start:])
            break
        arriving.feed(raw[start:stop])
        complete = reply.read(arriving)
    return arriving, reply, complete


def read(*payloads: bytes) -> list[Row]:
    arriving, reply, complete = arrived(framed(*payloads), [])
    assert complete
    assert arriving.empty
    return reply.rows


@given(
    st.lists(st.tuples(CELLS, CELLS).map(list), max_size=6),
    st.lists(st.integers(0, 9999), max_size=9),
    st.data(),
)
def test_rows_are_the_same_however_they_are_cut(
    rows: list[Row], cuts: list[int], data: st.DataObject
) -> None:
    first = data.draw(st.sampled_from([[], result([[b"of another"]], 1, MORE)]))
    arriving, reply, complete = arrived(framed(*first, *result(rows, 2)), cuts)
    assert complete
    assert arriving.empty
    assert reply.rows == rows


@given(st.lists(st.tuples(CELLS).map(list), max_size=4), st.integers(1, 2000))
def test_a_reply_that_was_cut_is_not_complete(rows: list[Row], missing: int) -> None:
    raw = framed(*result(rows, 1))
    _, _, complete = arrived(raw[: max(len(raw) - missing, 0)], [])
    assert not complete


PAYLOADS = st.one_of(
    st.binary(min_size=1, max_size=40),
    st.sampled_from([OK, END, MORE, COLUMN, b"\x01", b"\x02", b"\xff", b"\xfb/etc/passwd"]),
    st.binary(max_size=20).map(lambda raw: b"\xff" + raw),
    st.binary(max_size=12).map(lambda raw: b"\xfe" + raw),
)


@given(st.lists(PAYLOADS, max_size=12), st.lists(st.integers(0, 9999), max_size=6))
@example([b"\x01", COLUMN, END, b"\xfe" + b"\xff" * 8], [])
def test_whatever_a_server_sends_is_a_reply_or_an_error_of_ours(
    payloads: list[bytes], cuts: list[int]
) -> None:
    try:
        _, reply, _ = arrived(framed(*payloads), cuts)
    except (BrokenProtocol, ServerError):
        return
    assert all(len(each) == reply._columns for each in reply.rows)


@given(st.binary(max_size=200), st.lists(st.integers(0, 9999), max_size=6))
def test_bytes_without_any_form_are_an_error_of_ours(raw: bytes, cuts: list[int]) -> None:
    try:
        arrived(raw, cuts)
    except (BrokenProtocol, ServerError):
        return


def after(*payloads: bytes) -> Callable[[], object]:
    return lambda: read(*payloads)


@pytest.mark.parametrize(
    ("reading", "words"),
    [
        (after(b"\xfb/etc/passwd"), "neither a result nor an error"),
        (after(b"\xfe"), "neither a result nor an error"),
        (after(b"\xff"), "an error without a number"),
        (after(b"\xff\x15"), "an error without a number"),
        (after(b"\xff\0\0nothing"), "an error without a number"),
        (after(b"\xff\xff\xff\x01\x01\x01\0\0\0"), "an error without a number"),
        (after(b"\0\0"), "too short"),
        (after(b"\0\0\0\2"), "without a status"),
        (after(b"\x01", COLUMN, END, b"\xfe\0\0"), "without a status"),
        (after(b"\x01", COLUMN, COLUMN), "no end of the columns"),
        (after(written(MOST_COLUMNS + 1)), "not a number of columns"),
        (after(b"\xfe" + b"\xff" * 8), "neither a result nor an error"),
        (after(b"\xfd\xff\xff\xff"), "not a number of columns"),
        (after(b"\xfc\x01"), "a number that cannot be read"),
        (after(b"\x01\x01"), "not a number of columns"),
        (after(b"\x01", COLUMN, END, b"\x05abcd"), "a row that is too short"),
        (after(b"\x01", COLUMN, END, b"\xfe" + b"\xff" * 8), "a row that is too short"),
        (after(b"\x01", COLUMN, END, b"\xfd\xff\xff"), "a number that cannot be read"),
        (after(b"\x01", COLUMN, END, b"\x01ab"), "a row that is too long"),
        (after(b"\x02", COLUMN, COLUMN, END, b"\x01a"), "too short"),
        (after(b"\x01", COLUMN, END, *[b"\x01a"] * (MOST_ROWS + 1)), "more than 4096 rows"),
    ],
)
def test_a_reply_that_no_server_sends_is_broken(reading: Callable[[], object], words: str) -> None:
    with pytest.raises(BrokenProtocol, match=words):
        reading()


def test_an_error_has_a_number_and_a_text() -> None:
    with pytest.raises(ServerError) as caught:
        read(b"\xff\xb5\x04#40001Deadlock \xff" + b"x" * 1000)
    assert caught.value.code == 1205
    assert caught.value.text.startswith("Deadlock \N{REPLACEMENT CHARACTER}x")
    assert len(caught.value.text) <= 500
    with pytest.raises(ServerError, match=r"Too many connections \[1040\]"):
        read(b"\xff\x10\x04Too many connections")


@given(st.integers(0, 2**64 - 1), st.binary(max_size=4))
def test_numbers(value: int, behind: bytes) -> None:
    raw = written(value)
    assert number(raw + behind, 0) == (value, len(raw))
    for cut in range(len(raw)):
        with pytest.raises(BrokenProtocol):
            number(raw[:cut], 0)


def test_a_packet_that_is_out_of_turn_is_broken() -> None:
    arriving = Packets()
    arriving.framed(b"\x03SELECT 1")
    arriving.feed(b"\x01\0\0\x02\0")
    with pytest.raises(BrokenProtocol, match="packet 2 came in place of 1"):
        arriving.next()


def test_the_numbers_of_packets_begin_again_after_255() -> None:
    assert len(read(*result([[b"x"]] * 600, 1))) == 600


@pytest.mark.parametrize(
    ("header", "words"), [(b"\xff\xff\xff\0", "16 MiB"), (b"\0\0\0\0", "an empty packet")]
)
def test_a_packet_of_a_size_that_we_do_not_read_is_broken(header: bytes, words: str) -> None:
    arriving = Packets()
    arriving.feed(header)
    with pytest.raises(BrokenProtocol, match=words):
        arriving.next()


def test_a_reply_is_bounded_though_none_of_its_packets_is_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packets, "BOUND", 1000)
    with pytest.raises(BrokenProtocol, match="a reply of more than"):
        read(*result([[b"x" * 200]] * 10, 1))


def test_bytes_behind_a_reply_are_not_read_as_the_next_one() -> None:
    arriving, _, complete = arrived(framed(OK, OK), [])
    assert complete
    assert not arriving.empty
    with pytest.raises(BrokenProtocol, match="a reply to nothing"):
        arriving.begin()


def test_a_request_of_16_mib_is_not_sent() -> None:
    with pytest.raises(ValueError, match="16 MiB"):
        Packets().framed(bytes(packets.LARGEST))
