"""The client's contract on leaders that are stopped or fork, each in a process of its own."""

from __future__ import annotations

import signal
import subprocess

import pytest

from lockfast.errors import StaleToken
from lockfast.guards.mark import Mark, Shown, admit, shown
from lockfast.testing.contract.client.processes import heard, program
from lockfast.testing.contract.client.times import SLACK
from lockfast.testing.harness.programs import TTL
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import campaign, leader, release


def asked(process: subprocess.Popen[str]) -> tuple[Shown, str]:
    """Ask a leader to write. Return what it shows to a guard, and its own state."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("write\n")
    process.stdin.flush()
    token, id_, state = process.stdout.readline().split()
    return Shown("x", int(token), id_, int(token), shared=False), state


class DeposedContract(Contract):
    """A leader that continues after a pause, and one that forks."""

    @driven
    async def test_a_leader_that_was_stopped_and_continued_is_of_an_older_term_and_refused(
        self, stage: Stage
    ) -> None:
        election = stage.client().election("x", ttl=30.0)
        mark: Mark | None = None
        with program(stage, "lead") as old:
            heard(old, "leads")
            first = await leader(election)
            assert first is not None
            write, state = asked(old)
            assert (write.token, write.id, state) == (first.term, first.id, "held")
            mark = admit(mark, write)
            mark = admit(mark, asked(old)[0])  # a guard admits a leader any number of times
            old.send_signal(signal.SIGSTOP)
            lease = await campaign(election, "the second", TTL + SLACK)
            mark = admit(mark, shown(lease))
            old.send_signal(signal.SIGCONT)
            write, state = asked(old)
            assert (write.token, state) == (first.term, "lost")
            with pytest.raises(StaleToken):
                admit(mark, write)
            mark = admit(mark, shown(lease))
            second = await leader(election)
            assert second is not None
            assert (second.value, second.term) == ("the second", lease.token)
            assert second.term > first.term
            await release(lease)

    @driven
    async def test_a_fork_does_not_end_the_candidacy_of_its_parent(self, stage: Stage) -> None:
        with program(stage, "stand") as parent:
            heard(parent, "child-0")
            heard(parent, "leads")
            heard(parent, "leads ends")
            assert parent.wait(20) == 0
