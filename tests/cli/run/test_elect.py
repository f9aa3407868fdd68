"""`lockfast elect`: the command runs where the leader is, and again after a loss."""

from __future__ import annotations

import signal
from pathlib import Path

import lockfast
from tests.cli.run.program import Program, run
from tests.servers import Proxy, Redis, wait_until

LEADS = "echo leads $LOCKFAST_TOKEN; exec sleep 60"


def terms(program: Program) -> list[int]:
    """Tell the terms for which its command was started."""
    lines = program.stdout.splitlines()
    return [int(line.removeprefix("leads ")) for line in lines if line.startswith("leads ")]


def test_a_command_that_ends_by_itself_ends_the_candidacy(url: str) -> None:
    assert run(url, "elect", "done", "--", "sh", "-c", "exit 7")[0] == 7
    with lockfast.connect(url) as client:
        assert client.election("done").leader() is None


def test_the_leader_says_what_the_others_should_know(url: str) -> None:
    args = ("elect", "chief", "--value", "10.0.0.5:8080", "--", "sh", "-c", LEADS)
    with lockfast.connect(url) as client, Program(url, *args) as program:
        program.says("leads")
        leader = client.election("chief").leader()
        assert leader is not None
        assert (leader.value, [leader.term]) == ("10.0.0.5:8080", terms(program))


def test_the_next_one_leads_when_the_leader_is_told_to_end(url: str) -> None:
    args = ("elect", "next", "--", "sh", "-c", LEADS)
    with Program(url, *args) as first:
        first.says("leads")
        with lockfast.connect(url) as client, Program(url, *args) as second:
            wait_until(lambda: len(client.lock("next").queue()) == 2, "it stands", 30.0)
            assert terms(second) == []
            first.send(signal.SIGTERM)
            assert first.wait() == 128 + signal.SIGTERM
            second.says("leads")
            assert terms(second) > terms(first)


def test_a_candidate_that_is_told_to_end_leaves_the_queue(url: str) -> None:
    with lockfast.connect(url) as client, client.lock("led"):
        with Program(url, "elect", "led", "--", "echo", "ran") as program:
            wait_until(lambda: len(client.lock("led").queue()) == 2, "it stands", 30.0)
            program.send(signal.SIGTERM)
            assert program.wait() == 128 + signal.SIGTERM
        assert len(client.lock("led").queue()) == 1


def test_after_a_loss_the_command_is_ended_and_runs_again_in_a_later_term() -> None:
    with Redis() as server, Proxy(server.host, server.port) as proxy:
        args = ("elect", "again", "--ttl", "3", "--", "sh", "-c", LEADS)
        with Program(f"redis://{proxy.address}", *args) as program:
            program.says("leads")
            proxy.cut()
            program.says("could not be kept")
            proxy.heal()
            wait_until(lambda: len(terms(program)) == 2, "it leads again", 60.0)
            first, second = terms(program)
            assert first < second


def test_a_candidate_stands_before_its_engine_does(tmp_path: Path) -> None:
    server = Redis()
    try:
        with Program(
            server.url, "elect", "early", "--ttl", "1", "--", "touch", f"{tmp_path}/led"
        ) as program:
            program.says("the campaign for 'early' failed, trying again")
            server.start()
            assert program.wait() == 0
        assert (tmp_path / "led").exists()
    finally:
        server.close()
