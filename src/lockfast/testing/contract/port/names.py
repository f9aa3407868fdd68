"""The port's contract on names and payloads: engines must keep any text and any bytes unchanged."""

from __future__ import annotations

import unicodedata

import pytest

from lockfast.port import Shape
from lockfast.testing.harness.stage import Contract, Stage, driven

HOSTILE = [
    *(" ", "\t", "\n", "\r\n", "\0", "\x1b[31m", "\x7f", "a\0b", "a\0c"),
    *("{", "}", "{}", "{a}", "{a}b", "a{b}c", "}{", "{{a}}", "{1}", "{2}"),
    *("/", "//", "a/b", "../a", "a/../b", ".", "..", "a.b", "a..b", "\\", "a\\b"),
    *("%", "%s", "%d", "%00", "%%", "$1", "${a}", "$(a)", "`a`", "#", "?", "&a=b", "+", "="),
    *("*", "?*", "[a-z]", "[^a]", "^", "~", "!", "@", "|", ";", ",", ":", "<a>", "'", '"', "''"),
    *("'; DROP TABLE claims; --", 'a"b', "$5\r\nhello", "*1\r\n$4\r\nPING\r\n"),
    *("lockfast:", "lockfast:{1}=a", "lockfast:{1}", "{1}=a", "}=a", "=a", ">a", "#a", "!a"),
    *("Q 1 1 1 1 1 1 1", "0" * 32, "~" + "0" * 32, "None", "null", "0", "-1", "inf"),
    *("é", unicodedata.normalize("NFD", "é"), "ß", "SS", "ss", "İ", "\u0131", "A", "a", "\ufeffa"),
    *("🔒", "👩‍👩‍👧", "\u202eabc", "\u200b", "\u0301", "日本", "א", "\ud7ff", "\U0010ffff"),
    *("n" * 512, "n" * 511, "n" * 511 + "m", "é" * 256, "🔒" * 128),
]
"""Each is a different name. An engine must not trim, case-fold, normalise or cut one, nor match it
with another."""

PAYLOADS = [
    b"",
    b" ",
    b"\0",
    b"\r\n",
    b"\n+OK\r\n",
    b"$-1\r\n",
    bytes(range(256)),
    b"\xff\xfe\x80",
    b'{"host": "x"}',
    b"%s%d%%",
    b"1 2 3 4",
    b" leading and trailing ",
    b"Q 1 1 1 1 1 1 1",
    b"x" * 4096,
]

REFUSED = {
    "empty": "",
    "too long": "n" * 513,
    "too long in bytes": "🔒" * 128 + "n",
    "a surrogate": "\ud800",
    "a surrogate inside": "a\udfffb",
}


class NamingContract(Contract):
    """Any Unicode text of up to 512 bytes is a name, and any bytes are a payload."""

    @driven
    async def test_hostile_names_are_names_of_their_own(self, stage: Stage) -> None:
        assert len(set(HOSTILE)) == len(HOSTILE)
        actor = stage.actor()
        asks = [actor.ask(name, ttl=60) for name in HOSTILE]
        for ask in asks:
            assert (await actor.claim(ask)).granted, ask.shape.name
        for ask in asks:
            entries = await actor.entries(ask.shape.name)
            assert [(entry.name, entry.id) for entry in entries] == [(ask.shape.name, ask.id)]
        shown = sorted((entry.name, entry.id) for entry in await actor.every(""))
        assert shown == sorted((ask.shape.name, ask.id) for ask in asks)

    @driven
    async def test_hostile_names_have_queues_of_their_own(self, stage: Stage) -> None:
        actor = stage.actor()
        pairs = [(actor.ask(name, ttl=60), actor.ask(name, ttl=60)) for name in HOSTILE]
        for holder, waiter in pairs:
            assert (await actor.claim(holder)).granted
            standing = await actor.claim(waiter)
            assert (standing.granted, standing.ahead) == (False, 1), holder.shape.name
        for holder, waiter in pairs:
            assert await actor.resign(holder, doubt=True) == [True]
            assert (await actor.renew_one(waiter)).granted, holder.shape.name
        left = sorted((entry.name, entry.id) for entry in await actor.every(""))
        assert left == sorted((waiter.shape.name, waiter.id) for _, waiter in pairs)

    @driven
    async def test_payloads_come_back_byte_for_byte(self, stage: Stage) -> None:
        actor = stage.actor()
        for number, payload in enumerate(PAYLOADS):
            name = f"payload {number}"
            await actor.claim(actor.ask(name, payload=payload))
            assert [entry.payload for entry in await actor.entries(name)] == [payload]
            waiter = await actor.claim(actor.ask(name, payload=payload[::-1]))
            assert waiter.blocker is not None
            assert waiter.blocker.payload == payload
            shown = [entry.payload for entry in await actor.entries(name)]
            assert shown == [payload, payload[::-1]]

    @pytest.mark.parametrize("name", REFUSED.values(), ids=REFUSED)
    def test_what_is_no_name_is_refused_at_the_door(self, name: str) -> None:
        with pytest.raises(ValueError, match="name"):
            Shape(name, 1.0)
