"""What a replica of the service tells the history."""

from __future__ import annotations

from lockfast.engines.remote.messages import Asked
from lockfast.port import Standing
from lockfast.runtime.base import now
from lockfast.service.caller import Caller
from lockfast.service.figures import Figures
from lockfast.service.watch import Watch
from lockfast.web.history import History
from tests.web.engines import in_loop, until

ADA = Caller("ada", address="10.0.0.7")


@in_loop
async def test_claims_of_the_service_are_heard() -> None:
    watch, history = Watch(now, Figures(lambda: 0)), History()
    watch.onlooker = history
    assert watch.wants(ADA)
    assert watch.checks(ADA)
    released, broken = (Asked(each * 32, "one", 20.0, not_after=9.0) for each in "ab")
    short = Asked("c" * 32, "one", 0.05, not_after=9.0)
    for asked, ticket in ((released, 1), (broken, 2), (short, 3)):
        watch.stood(ADA, asked, Standing(ticket, granted=True, left=asked.ttl), new=True)
    watch.removed(ADA, released, answer=True, broken=False)
    watch.removed(ADA, broken, answer=True, broken=True)

    expired: list[str] = []
    audit = watch.onlooker

    class Both:
        """Sees the events before the history."""

        def write(self, event: str, **fields: str | int | bool | None) -> None:
            expired.extend([event] if event == "expired" else [])
            audit.write(event, **fields)

    watch.onlooker = Both()

    async def is_expired() -> bool:
        return bool(expired)

    await until(is_expired)
    told = [(event.kind, event.ticket) for event in history.of("one")]
    assert told == [
        ("granted", 1),
        ("granted", 2),
        ("granted", 3),
        ("released", 1),
        ("broken", 2),
    ]
    assert history.of("one")[0].who == "ada at 10.0.0.7"
    history.write("denied", lock="one", id="d" * 32)  # not an event of a lock
    assert (
        len(history.of("one")) == 5
    )  # one that has expired here may have moved to another replica
    watch.close()
