"""ZooKeeper's nodes and answers as strangers may make them: nothing but our own errors come out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.core.record import FORMAT
from lockfast.core.token import LIMIT
from lockfast.engines.zookeeper import nodes
from lockfast.engines.zookeeper.kazoo_replies import _is_whole
from lockfast.engines.zookeeper.nodes import Line, parse
from lockfast.port import Kind, fits_kind

ID = "0123456789abcdef0123456789abcdef"


@given(
    st.text(max_size=60)
    | st.from_regex(rf"{ID}-[^/]{{0,20}}-[^/]{{0,20}}-[^/]{{0,20}}")
    | st.from_regex(rf"{ID}-[0-9]{{0,11}}-[0-2]_[0-4]_[0-9]{{9,11}}-[0-9]{{0,11}}", fullmatch=True)
)
def test_a_name_is_one_of_ours_or_of_another_format_or_it_is_left_out(child: str) -> None:
    node = parse(child)
    if node is not None:
        assert -(2**31) <= node.sequence <= 2**31
        assert node.id.isascii()
    if node is not None and node.kind is not None:
        assert node.format == FORMAT
        assert fits_kind(node.kind, node.capacity, node.weight)
    elif node is not None:
        assert node.format != FORMAT
        assert Line([child]).granted == 0
    line = Line([child, f"{ID}-1-1_1_0000000001-0000000001"])
    assert line.nodes[-1].child == child or line.nodes[-1].kind is Kind.LOCK


FORGED = ["-1-1", "0-1", "-99-1", "1_0-1", "\u0663-9", "2-1", " 1-1", "9" * 5000 + "-1"]
FORGED += ["0-1_1_0000000001", "2-1_1_0000000001", "1-1_4_0000000001", "1-1_1_1", "1-1_\u0663_0"]
FORGED += ["1-1_2_0000000005", "6-1_3_0000000005", "1-1_3_2147483647", "1-01_1_0000000001"]


@pytest.mark.parametrize("forged", FORGED, ids=range(len(FORGED)))
def test_a_name_that_no_client_writes_does_not_make_room_for_another(forged: str) -> None:
    held, waiting = (f"{ID}-1-1_1_0000000001-000000000{number}" for number in (1, 3))
    stranger = f"{ID}-{forged}-0000000002"
    assert parse(stranger) is None
    line = Line([held, stranger, waiting])
    assert (line.granted, len(line.nodes), line.other) == (1, 2, None)


@given(st.none() | st.binary(max_size=60) | st.from_regex(rb"-?[0-9]{1,30} -?[0-9]{1,30}\n.*"))
def test_what_a_node_says_is_within_bounds_or_nothing(data: bytes | None) -> None:
    header = nodes.unpacked(data)
    assert 0.0 < header.ttl <= nodes.LONGEST
    assert 0 <= header.base < LIMIT // 2
    assert isinstance(header.payload, bytes)


@given(st.text(max_size=60))
def test_every_child_of_a_bucket_has_a_name_whose_folder_can_be_told(child: str) -> None:
    assert nodes.folder("/top", nodes.name_of(child)).startswith("/top/locks/")


@given(st.lists(st.text(max_size=20), max_size=5), st.data())
def test_a_list_that_was_cut_off_is_not_read(names: list[str], data: st.DataObject) -> None:
    """kazoo would cut the last name short, and the claim would look like one that is gone."""
    raw = [name.encode() for name in names]
    body = len(raw).to_bytes(4, "big") + b"".join(len(n).to_bytes(4, "big") + n for n in raw)
    assert _is_whole(b"head" + body, 4)
    cut = data.draw(st.integers(0, len(body) - 1))
    assert not _is_whole(b"head" + body[:cut], 4)
