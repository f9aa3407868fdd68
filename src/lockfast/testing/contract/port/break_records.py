"""The port's contract on records of breaks: kept for each name, newest first, limited in number."""

from __future__ import annotations

from lockfast.port import RECORD, RECORDS
from lockfast.testing.harness.stage import Contract, Stage, driven


class RecordContract(Contract):
    """The engine keeps records of who broke a lock and why."""

    @driven
    async def test_what_was_recorded_of_a_name_is_read_the_newest_first(self, stage: Stage) -> None:
        actor, other = stage.actor(), stage.actor()
        names = ("x", "x/y", "X", "a b%20{c}\n\x00é")
        for name in names:
            assert await other.engine.records(name, other.deadline) == []
        for name in names:
            for number in range(3):
                ask = actor.ask(name)
                await actor.claim(ask)
                line = f"{number} of {name!r}".encode()
                await actor.engine.record(name, ask.id, line, actor.deadline)
                await actor.resign(ask)
        for name in names:
            kept = await other.engine.records(name, other.deadline)
            assert kept == [f"{number} of {name!r}".encode() for number in (2, 1, 0)]
            assert await other.entries(name) == []

    @driven
    async def test_only_the_newest_records_of_a_name_are_kept(self, stage: Stage) -> None:
        actor = stage.actor()
        every = []
        for number in range(RECORDS + 4):
            ask = actor.ask()
            await actor.claim(ask)
            every.append(f"{number} ".encode().ljust(RECORD, b"."))
            await actor.engine.record("x", ask.id, every[-1], actor.deadline)
            await actor.resign(ask)
        assert await actor.engine.records("x", actor.deadline) == every[::-1][:RECORDS]

    @driven
    async def test_records_that_are_written_at_once_are_all_kept(self, stage: Stage) -> None:
        """In an incident several operators break locks at the same moment."""
        actor = stage.actor()
        asks = [actor.ask() for _ in range(RECORDS - 2)]
        for ask in asks:
            await actor.claim(ask)
        lines = [f"by operator {number}".encode() for number in range(len(asks))]
        await stage.mode.together(
            *(
                actor.engine.record("x", ask.id, line, actor.deadline)
                for ask, line in zip(asks, lines, strict=True)
            )
        )
        assert sorted(await actor.engine.records("x", actor.deadline)) == sorted(lines)
        await actor.resign(*asks)
