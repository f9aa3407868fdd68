"""Which channels a connection subscribes to, as clients come and go. No server."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import hiredis
import pytest

from lockfast.engines.redis.channels import Change
from lockfast.engines.redis.refusals import AGAIN, Refusals
from lockfast.engines.redis.subscriptions import ENOUGH, TOGETHER, Subscriptions
from lockfast.engines.redis.transport import Address
from lockfast.errors import EngineUnavailable
from lockfast.port import EVERYONE, Wake, everyone_of
from lockfast.runtime.drive import drive

HERE = Address("localhost", 6379)
NO_CHANNEL = hiredis.ReplyError("NOPERM No permissions to access a channel")
LATER = 10.0


def client(number: int) -> str:
    return f"{number:022x}"


class Ears:
    """A transport to a server that refuses some channels."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[tuple[bytes, list[str]]] = []
        self.left: list[float] = []
        """How many seconds each call had."""
        self.refused: set[str] = set()
        self.error = NO_CHANNEL
        self.during: Callable[[], object] = bool
        self.subscriptions = Subscriptions(Refusals(lambda: self.now), lambda: self.now)

    async def change(
        self, ear: object, changes: Sequence[Change], deadline: float
    ) -> list[hiredis.ReplyError | None]:
        del ear
        self.left.append(deadline - self.now)
        self.during()
        return [self._answer(*change.packet().split(b"\r\n")[2::2]) for change in changes]

    def _answer(self, verb: bytes, *rest: bytes) -> hiredis.ReplyError | None:
        clients = [each.decode().removeprefix("lockfast:") for each in rest if each]
        self.calls.append((verb, clients))
        return self.error if self.refused.intersection(clients) else None

    def hear(self, *clients: str, on: bool = True) -> None:
        for each in clients:
            self.subscriptions.hear(each, on=on)

    def follow(self, ear: object = "ear", seconds: float = LATER) -> list[Wake]:
        return drive(self.subscriptions.follow(self, ear, HERE, self.now + seconds))

    @property
    def sizes(self) -> list[int]:
        """How many channels each command named."""
        return [len(clients) for _, clients in self.calls]


@pytest.fixture
def ears() -> Ears:
    return Ears()


def test_all_clients_of_a_new_connection_go_out_in_commands_of_a_bounded_size(ears: Ears) -> None:
    many = [client(n) for n in range(2 * TOGETHER + 10)]
    ears.hear(*many)
    assert ears.follow() == [EVERYONE]
    assert ears.sizes == [TOGETHER, TOGETHER, 10]
    assert [each for _, some in ears.calls for each in some] == many
    assert ears.follow() == []
    ears.calls.clear()
    assert ears.follow("another connection") == [EVERYONE]
    assert ears.sizes == [TOGETHER, TOGETHER, 10]


def test_one_more_client_costs_one_channel_however_many_are_heard(ears: Ears) -> None:
    ears.hear(*(client(n) for n in range(3000)))
    ears.follow()
    ears.calls.clear()
    ears.hear(client(5000))
    assert ears.follow() == [everyone_of(client(5000))]
    ears.hear(client(7), on=False)
    assert ears.follow() == []
    assert ears.calls == [(b"SUBSCRIBE", [client(5000)]), (b"UNSUBSCRIBE", [client(7)])]


def test_a_client_that_left_and_came_back_may_have_missed_wakes(ears: Ears) -> None:
    ears.hear(client(1))
    ears.follow()
    ears.calls.clear()
    ears.hear(client(1), on=False)
    assert ears.subscriptions.wakes([f"{client(1)}{7:010x} 5".encode()]) == []
    ears.hear(client(1))
    assert ears.follow() == [everyone_of(client(1))]
    ears.hear(client(1))  # heard already: its replica may have had it on a connection that ended
    assert ears.follow() == [everyone_of(client(1))]
    assert ears.calls == []


def test_clients_that_nobody_hears_are_no_error_and_cost_nothing(ears: Ears) -> None:
    ears.hear(client(1), on=False)
    assert ears.subscriptions.needless
    assert not ears.subscriptions.due
    ears.hear(client(1))
    ears.hear(client(1), on=False)
    assert ears.follow() == []
    assert ears.calls == []


def test_a_client_that_comes_while_others_are_subscribed_is_not_forgotten(ears: Ears) -> None:
    ears.hear(client(1))

    def come() -> None:
        ears.during = bool
        ears.hear(client(2))
        ears.hear(client(1), on=False)

    ears.during = come
    assert ears.follow() == [EVERYONE]
    assert ears.calls == [
        (b"SUBSCRIBE", [client(1)]),
        (b"SUBSCRIBE", [client(2)]),
        (b"UNSUBSCRIBE", [client(1)]),
    ]


def test_the_heart_gets_back_to_its_renewals_and_goes_on_later(ears: Ears) -> None:
    ears.hear(*(client(n) for n in range(2 * TOGETHER)))
    assert ears.follow(seconds=0.0) == []
    assert ears.sizes == [TOGETHER]
    assert ears.subscriptions.due
    assert ears.follow(seconds=0.0) == [EVERYONE]
    assert ears.sizes == [TOGETHER] * 2
    assert not ears.subscriptions.due
    assert ears.left == [ENOUGH] * 2


def test_after_an_answer_that_did_not_come_all_channels_are_asked_for_again(ears: Ears) -> None:
    ears.hear(client(1))
    ears.follow()
    ears.hear(client(2))

    def fail() -> None:
        ears.during = bool
        raise EngineUnavailable("no answer in time", sent=True)

    ears.during = fail
    with pytest.raises(EngineUnavailable):
        ears.follow()
    ears.calls.clear()
    assert ears.follow() == [EVERYONE]
    assert ears.calls == [(b"SUBSCRIBE", [client(1), client(2)])]


def test_a_refused_channel_does_not_keep_the_others_out(ears: Ears) -> None:
    ears.hear(*(client(n) for n in range(4)))
    ears.refused = {client(1)}
    assert ears.follow() == [EVERYONE]
    assert ears.sizes == [4, 1, 1, 1, 1]
    assert not ears.subscriptions.silenced
    ears.calls.clear()
    assert ears.follow() == []  # not before AGAIN
    ears.hear(client(9))
    assert ears.follow() == [everyone_of(client(9))]
    ears.now += AGAIN + 1
    ears.refused = set()
    assert ears.follow() == [everyone_of(client(1))]
    assert ears.calls == [(b"SUBSCRIBE", [client(9)]), (b"SUBSCRIBE", [client(1)])]
    assert ears.subscriptions.retry(HERE) is None


def test_a_server_that_refuses_all_channels_is_not_asked_for_each_of_thousands(
    ears: Ears, caplog: pytest.LogCaptureFixture
) -> None:
    many = [client(n) for n in range(10 * TOGETHER)]
    ears.hear(*many)
    ears.refused = set(many)
    assert ears.follow() == []
    assert ears.sizes == [TOGETHER, *[1] * TOGETHER]
    assert ears.subscriptions.silenced
    assert ears.subscriptions.retry(HERE) == AGAIN
    assert len(caplog.messages) == 1
    ears.refused = set()
    ears.now += AGAIN + 1
    ears.calls.clear()
    assert ears.follow() == [EVERYONE]
    assert sorted(each for _, some in ears.calls for each in some) == many


def test_a_server_that_is_not_ready_has_refused_nothing(ears: Ears) -> None:
    ears.hear(client(1))
    ears.refused, ears.error = {client(1)}, hiredis.ReplyError("LOADING Redis is loading")
    with pytest.raises(EngineUnavailable):
        ears.follow()
    ears.refused = set()
    assert ears.follow() == [EVERYONE]


def test_a_server_that_refuses_to_unsubscribe_is_reported_once(
    ears: Ears, caplog: pytest.LogCaptureFixture
) -> None:
    ears.hear(client(1), client(2), client(3))
    ears.follow()
    ears.refused = {client(1), client(2)}
    ears.hear(client(1), on=False)
    ears.follow()
    ears.hear(client(2), on=False)
    ears.follow()
    (told,) = caplog.messages
    assert "+unsubscribe" in told
    assert "). Redis still sends" in told
    assert ears.subscriptions.wakes([f"{client(1)}{7:010x} 5".encode()]) == []
    ears.calls.clear()
    ears.hear(client(1))
    assert ears.follow() == [everyone_of(client(1))]
    assert ears.calls == []  # it is subscribed to still


def test_a_confirmation_of_another_channel_confirms_nothing() -> None:
    change = Change(b"subscribe", [b"a", b"b"])
    assert not change.confirm([b"subscribe", b"b", 1])
    assert not change.confirm([b"unsubscribe", b"a", 1])
    assert not change.confirm([])
    assert change.confirm([b"subscribe", b"a", 1])
    assert not change.done
    assert not change.confirm([b"subscribe", b"a", 1])
    assert change.confirm([b"subscribe", b"b", 2])
    assert change.done
    assert not change.confirm([b"subscribe", b"b", 3])
