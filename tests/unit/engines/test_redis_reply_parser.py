"""The parser of Redis replies returns the same replies however they are cut, within its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import hiredis
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lockfast.engines.redis import reply_size
from lockfast.engines.redis.reply_parser import MISSING, Parser
from lockfast.engines.redis.reply_size import LARGEST, MOST


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(text), text)


def array(kind: bytes, items: list[bytes]) -> bytes:
    return b"%b%d\r\n%b" % (kind, len(items), b"".join(items))


TEXTS = st.binary(max_size=12) | st.sampled_from(
    [b"\r\n", b"*1000000000\r\n", b">99999\r\n$5\r\n", b"|12345", b"$3\r\n", b"x" * 70]
)
LINES = st.text("*>$:-+ 0129abc", max_size=12).map(str.encode)
USUAL = st.binary(min_size=16, max_size=16).map(bulk) | st.just(b"*1\r\n:1\r\n")
SIMPLE = st.one_of(
    USUAL,  # the replies that are read without hiredis
    TEXTS.map(bulk),
    LINES.map(lambda text: b"+%b\r\n" % text),
    LINES.map(lambda text: b"-ERR %b\r\n" % text),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: b":%d\r\n" % number),
    st.sampled_from([b"_\r\n", b"$-1\r\n", b"*-1\r\n", b"#t\r\n", b"#f\r\n", b"*0\r\n"]),
)
REPLIES = st.recursive(
    SIMPLE,
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda items: array(b"*", items))
        | st.lists(inner, max_size=3).map(  # of other keys: hiredis misreads a key that repeats
            lambda items: array(b"%", [b":%d\r\n%b" % each for each in enumerate(items)])
        )
    ),
    max_leaves=12,
)
PUSHES = st.lists(TEXTS.map(bulk), min_size=1, max_size=3).map(lambda items: array(b">", items))
STREAMS = st.lists(REPLIES | PUSHES, min_size=1, max_size=6).map(b"".join)


class Reference:
    """Reads whole replies from a string, one after the other."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def _line(self) -> bytes:
        line, _, self._raw = self._raw.partition(b"\r\n")
        return line

    def all(self) -> Iterator[Any]:
        while self._raw:
            yield self._one()

    def _one(self) -> Any:  # noqa: ANN401  # whatever a server says
        line = self._line()
        kind, said = line[:1], line[1:]
        if kind in b"+-":
            return said if kind == b"+" else ("error", said.decode())
        if kind == b":":
            return int(said)
        if kind in b"_#" or said == b"-1":
            return {b"t": True, b"f": False}.get(said)
        if kind == b"$":
            text, self._raw = self._raw[: int(said)], self._raw[int(said) + 2 :]
            return text
        items = [self._one() for _ in range(int(said) * (2 if kind == b"%" else 1))]
        if kind == b"%":
            return dict(zip(items[::2], items[1::2], strict=True))
        return ("push", items) if kind == b">" else items


def plainly(reply: Any) -> Any:  # noqa: ANN401  # whatever a server says
    """Write a reply as the reference does."""
    if isinstance(reply, hiredis.ReplyError):
        return ("error", str(reply))
    if isinstance(reply, hiredis.PushNotification):
        return ("push", [plainly(each) for each in reply])
    if isinstance(reply, list):
        return [plainly(each) for each in reply]
    if isinstance(reply, dict):
        return {key: plainly(each) for key, each in reply.items()}
    return reply


def _fed(parser: Parser, data: bytes) -> Iterator[Any]:
    parser.feed(data)
    yield from iter(parser.gets, MISSING)


def _read(parser: Parser, data: bytes) -> Iterator[Any]:
    """Read as a blocking connection does."""
    reply = parser.read(data)
    while reply is not MISSING:
        yield reply
        reply = MISSING if parser.idle else parser.gets()


def _taken(parser: Parser, data: bytes) -> Iterator[Any]:
    """Read as an asyncio connection does."""
    plain = parser.begin(data)
    count = 0
    for reply in iter(parser.take if plain else parser.gets, MISSING):
        count += 1
        yield reply
        if not parser.has_data():
            return
    if plain:
        parser.keep(data, count)


Way = Callable[[Parser, bytes], Iterator[Any]]
WAYS: list[Way] = [_fed, _read, _taken]


def replies(parser: Parser, pieces: list[bytes], way: Way) -> Any:  # noqa: ANN401  # the same
    """Read all pieces as a connection does, and return what they say."""
    return [plainly(reply) for piece in pieces for reply in way(parser, piece)]


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=60)  # each has a hundred cuts
@given(raw=STREAMS)
@example(raw=b"$16\r\n1763469491000000\r\n*1\r\n:1\r\n*1\r\n:0\r\n")
@example(raw=b"$16\r\n1763469491000000\r\n")
@example(raw=b"$16\r\n\r\n$4\r\nabcd\r\n:1\r\n\r\n")
@example(raw=b"$10\r\nabcdefghij\r\n:1\r\n")
@example(raw=b"*1\r\n:1\r\n")
@example(raw=b"*2\r\n-ERR one\r\n*1\r\n-ERR two\r\n>2\r\n$3\r\nabc\r\n$0\r\n\r\n:1\r\n")
def test_a_stream_is_read_the_same_at_every_cut(way: Way, raw: bytes) -> None:
    expected = list(Reference(raw).all())
    for cut in range(len(raw) + 1):
        parser = Parser()
        assert replies(parser, [each for each in (raw[:cut], raw[cut:]) if each], way) == expected
        assert parser.idle
        assert parser.unfinished == 0


@pytest.mark.parametrize("way", WAYS)
@given(raw=STREAMS, sizes=st.lists(st.integers(1, 9), min_size=1))
def test_a_stream_in_small_pieces_is_read_the_same(way: Way, raw: bytes, sizes: list[int]) -> None:
    pieces: list[bytes] = []
    place = 0
    while place < len(raw):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(raw[place : place + size])
        place += size
    parser = Parser()
    assert replies(parser, pieces, way) == list(Reference(raw).all())
    assert parser.idle


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("whole", [False, True])
def test_nested_arrays_are_counted_together(way: Way, *, whole: bool) -> None:
    """A thousand of them, 9 KB, took hiredis seven seconds and 8 GB of address space."""
    heads = [b"*400000\r\n", b"%300000\r\n"] * 500
    with pytest.raises(hiredis.ProtocolError, match=f"more than {MOST} parts"):
        replies(Parser(), [b"".join(heads)] if whole else heads, way)


@pytest.mark.parametrize("way", WAYS)
def test_a_reply_of_as_many_parts_as_are_allowed_is_read(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_size, "MOST", 99_999)  # so that the test takes a second
    half = b"*49998\r\n" + b":1\r\n" * 49_998
    raw = (b"*2\r\n" + half + half) * 2  # together too many, but each reply has its own limit
    pieces = [raw[start : start + 100_001] for start in range(0, len(raw), 100_001)]
    assert [len(each) for each in replies(Parser(), pieces, way)] == [2, 2]


class Counting:
    """A pattern that counts its searches."""

    def __init__(self, pattern: Any, lines: list[int]) -> None:  # noqa: ANN401  # re.Pattern
        self._pattern = pattern
        self._lines = lines

    def match(self, raw: bytes, place: int) -> Any:  # noqa: ANN401  # re.Match
        self._lines.append(place)
        return self._pattern.match(raw, place)


PUSH = array(b">", [bulk(b"message"), bulk(b"channel"), bulk(b"12345678")])
ODD = array(b">", [bulk(b"message"), bulk(b"channel"), bulk(b"*2345678")])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("push", [PUSH, ODD], ids=["plain", "like a header"])
def test_pushes_without_end_are_not_kept(
    way: Way, push: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no piece ended where a push ends, all of them were kept, and searched again and again."""
    monkeypatch.setattr(reply_size, "LARGEST", 20_000)
    lines: list[int] = []
    monkeypatch.setattr(reply_size, "LINE", Counting(reply_size.LINE, lines))
    parser, cut, rest = Parser(), 7, b""
    for _ in range(50):
        data = rest + push * 100
        replies(parser, [data[:-cut]], way)
        rest = data[-cut:]
        assert not parser.idle
        assert parser._arriving._size <= 20_000 + len(data)
    assert 0 < len(lines) <= 50 * 100 * 7 + 50 * 2  # each line once, and an unfinished one again


def test_a_line_without_end_is_refused_before_it_is_searched_often() -> None:
    pieces = [b"+", *[b"*12345" * 200] * (LARGEST // 1200)]
    with pytest.raises(hiredis.ProtocolError, match="a line of more than 65536 bytes"):
        replies(Parser(), pieces, _read)
