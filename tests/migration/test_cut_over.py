"""Processes of two versions exclude each other while a deployment rolls out, in every pair."""

from __future__ import annotations

from pathlib import Path

import pytest

import lockfast
from tests.migration.page import programs
from tests.migration.pair import check_waits, queued
from tests.migration.peers import Peer
from tests.migration.worker import Worker

BEFORE, BOTH, AFTER = "Before", "Deploy 1", "After"


@pytest.mark.parametrize(
    ("first", "second"),
    [(BEFORE, BOTH), (BOTH, BEFORE), (BOTH, BOTH), (BOTH, AFTER), (AFTER, BOTH)],
)
def test_the_second_waits_for_the_first(
    peer: Peer, first: str, second: str, tmp_path: Path
) -> None:
    code = programs(peer.page, peer.swaps)
    waits = peer.waits if BEFORE in {first, second} else queued(peer.url)
    check_waits(code[first], code[second], waits, tmp_path, peer.env)
    with lockfast.connect(peer.url) as client:
        assert client.lock("invoices").queue() == []


def test_before_and_after_have_no_lock_in_common(peer: Peer, tmp_path: Path) -> None:
    # So deploy 2 must wait for the last process from before deploy 1, and the test above can fail.
    code = programs(peer.page, peer.swaps)
    with Worker(code[BEFORE], tmp_path, peer.env) as one:
        one.wait_works()
        with Worker(code[AFTER], tmp_path, peer.env) as two:
            two.wait_works()
            two.finish()
        one.finish()


def test_deploy_1_and_deploy_2_work_with_increasing_tokens(peer: Peer, tmp_path: Path) -> None:
    code = programs(peer.page, peer.swaps)
    tokens = []
    for version in (BOTH, AFTER, BOTH):
        with Worker(code[version], tmp_path, peer.env) as worker:
            worker.wait_works()
            tokens.append(int(worker.said.split()[-1]))
            worker.finish()
    assert tokens == sorted(set(tokens))
