"""The page of the protocol: its frames are messages, and its tables have every field."""

from __future__ import annotations

import re
from typing import get_args

import msgspec
import pytest

from lockfast.engines.remote import messages
from lockfast.engines.remote.identity import client_of
from lockfast.service.connection import UNANSWERED
from lockfast.service.websocket import GREETING
from tests.docs.page import ROOT

PAGE = (ROOT / "docs" / "service" / "protocol.md").read_text("utf-8")
BLOCKS = [
    [line for line in block.splitlines() if line]
    for block in re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
]
REQUESTS = get_args(messages.Request)
REPLIES = get_args(messages.Reply)


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def default_of(field: msgspec.structs.FieldInfo) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def words_of(default: object) -> str:
    if default is msgspec.NODEFAULT:
        return "–"  # noqa: RUF001  # as the page has it
    if default in {"", b""}:
        return "empty"
    if default is None or isinstance(default, bool):
        return {None: "null", True: "true", False: "false"}[default]
    return f"{default:g}" if isinstance(default, float) else str(default)


def test_every_frame_is_a_message() -> None:
    asked, answered = BLOCKS
    requests = [messages.request(line) for line in asked]
    replies = [messages.reply(line) for line in answered]
    assert isinstance(requests[0], messages.Hello)
    assert isinstance(replies[0], messages.Welcome)
    numbers = [each.n for each in requests if hasattr(each, "n")]
    assert numbers == [each.n for each in replies if hasattr(each, "n")]
    for line, parsed in zip(asked + answered, [*requests, *replies], strict=True):
        # No field is misspelled: those that are not known would be ignored.
        known = msgspec.to_builtins(parsed) | {"t": parsed.__struct_config__.tag}
        assert msgspec.json.decode(line).keys() <= known.keys() | {"n"}


def test_the_name_in_the_frames_is_that_of_the_ids() -> None:
    welcome = messages.reply(BLOCKS[1][0])
    claim = messages.request(BLOCKS[0][2])
    hello = messages.request(BLOCKS[0][0])
    assert isinstance(welcome, messages.Welcome)
    assert isinstance(claim, messages.Claim)
    assert isinstance(hello, messages.Hello)
    assert welcome.client == client_of(hello.secret)
    assert claim.asks[0].id.startswith(welcome.client)


@pytest.mark.parametrize(
    ("title", "kinds"),
    [("Messages of a client", REQUESTS), ("Messages of a replica", REPLIES)],
    ids=["client", "replica"],
)
def test_the_tables_have_every_message_and_field(title: str, kinds: tuple[type, ...]) -> None:
    text = section(title)
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)$", text, re.MULTILINE))
    for kind in kinds:
        tag = kind.__struct_config__.tag  # type: ignore[attr-defined]
        for field in msgspec.structs.fields(kind):
            assert f"`{field.encode_name}`" in rows[tag], (tag, field.encode_name)


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("Messages of a client", messages.Asked),
        ("Messages of a replica", messages.Stood),
        ("Messages of a replica", messages.Fault),
    ],
)
def test_the_tables_have_the_defaults(title: str, kind: type[msgspec.Struct]) -> None:
    for field in msgspec.structs.fields(kind):
        said = words_of(default_of(field))
        row = rf"^\| [^|]*`{field.encode_name}`[^|]* \| {re.escape(said)} \|"
        assert re.search(row, section(title), re.MULTILINE), (field.encode_name, said)


def test_the_entries_of_a_page_have_their_fields() -> None:
    (line,) = re.findall(r"^An entry of a page has (.*)$", PAGE, re.MULTILINE)
    fields = msgspec.structs.fields(messages.Listed)
    assert all(f"`{field.encode_name}`" in line for field in fields)


def test_the_limits_are_those_of_the_code() -> None:
    assert f"The version of the protocol is {messages.VERSION}." in PAGE
    assert f"1 to {messages.AT_ONCE} claims" in PAGE
    assert messages.LARGEST == 2**20
    assert "A message has at most 1 MiB." in PAGE
    assert f"payloads have at most {messages.PAYLOADS:,} bytes together" in PAGE.replace("\n", " ")
    assert f"at most {messages.LONGEST_PAYLOAD:,} bytes" in PAGE
    assert messages.LARGEST_REPLY == 64 * 2**20
    assert "A message to a client has at most 64 MiB." in PAGE
    assert f"while {UNANSWERED}" in PAGE
    assert f"within {GREETING:g} seconds" in PAGE
