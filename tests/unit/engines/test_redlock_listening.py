"""To which node a Redlock engine listens, and what it makes of messages. No server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import hiredis
import pytest

from lockfast.engines.redis.channels import Change
from lockfast.engines.redis.refusals import AGAIN
from lockfast.engines.redis.transport import Address
from lockfast.engines.redlock import messages
from lockfast.engines.redlock.claiming import DEAF
from lockfast.engines.redlock.engine import RedlockEngine
from lockfast.engines.redlock.transport import Transport
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.port import EVERYONE, Wake, everyone_of
from lockfast.runtime.drive import drive

NODES = [Address(f"n{number}", 6379) for number in range(3)]
FIRST, SECOND, LAST = NODES
NO_CHANNEL = hiredis.ReplyError("NOPERM No permissions to access a channel")


Listen = Callable[..., list[Wake]]


def client(number: int) -> str:
    return f"{number:022x}"


def claim(number: int) -> str:
    return client(number) + "0000000007"


class Nodes:
    """A transport to nodes that refuse channels, or that do not answer."""

    nodes = NODES

    def __init__(self) -> None:
        self.now = 1.0
        self.down: set[Address] = set()
        self.login: set[Address] = set()
        """Those that refuse the login."""
        self.refused: dict[Address, set[str]] = {}
        self.there: dict[Address, set[str]] = {}
        self.asked: list[Address] = []
        self.paused: list[float | None] = []
        self.messages: list[bytes] = []
        self.until: float | None = None
        """The deadline of the last `listen`."""

    async def ear(self, address: Address, deadline: float) -> Address:
        del deadline
        self.asked.append(address)
        if address in self.login:
            raise EngineRefused("NOAUTH Authentication required")
        return address

    async def change(
        self, ear: Address, changes: Sequence[Change], deadline: float
    ) -> list[hiredis.ReplyError | None]:
        del deadline
        if ear in self.down:
            raise EngineUnavailable("no answer in time", sent=True)
        return [self._change(ear, *change.packet().split(b"\r\n")[2::2]) for change in changes]

    def _change(self, ear: Address, verb: bytes, *rest: bytes) -> hiredis.ReplyError | None:
        clients = {each.decode().removeprefix(messages.PREFIX) for each in rest if each}
        if self.refused.get(ear, set()) & clients:
            return NO_CHANNEL
        there = self.there.setdefault(ear, set())
        (there.update if verb == b"SUBSCRIBE" else there.difference_update)(clients)
        return None

    async def listen(self, address: Address, deadline: float | None) -> list[bytes]:
        self.until = deadline
        if address in self.down:
            raise EngineUnavailable("the connection ended", sent=False)
        found, self.messages = self.messages, []
        return found

    async def pause(self, deadline: float | None) -> None:
        self.paused.append(deadline)

    def catch_up(self) -> bool:
        return False

    def rouse(self) -> None:
        """There is no bell."""


async def no_sleep(seconds: float) -> None:
    del seconds


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
def listen(nodes: Nodes) -> Listen:
    engine = RedlockEngine(cast("Transport", nodes), lambda: nodes.now, no_sleep, 0)

    def hear(*numbers: int, off: Sequence[int] = ()) -> list[Wake]:
        """Hear some clients and others no longer, and return what `listen` does."""
        for number in numbers:
            engine.hear(client(number), on=True)
        for number in off:
            engine.hear(client(number), on=False)
        return drive(engine.listen(nodes.now + 1.0))

    return hear


def test_it_subscribes_at_the_last_node_only(nodes: Nodes, listen: Listen) -> None:
    assert listen(1, 2) == [EVERYONE]
    assert nodes.there == {LAST: {client(1), client(2)}}
    assert listen(3) == [everyone_of(client(3))]
    assert listen(off=[1]) == []
    assert nodes.there == {LAST: {client(2), client(3)}}


def test_nothing_is_asked_of_a_node_before_a_client_is_heard(nodes: Nodes, listen: Listen) -> None:
    assert listen() == []
    assert (nodes.asked, nodes.paused) == ([], [nodes.now + 1.0])


def test_after_a_move_to_another_node_everyone_may_have_missed_wakes(
    nodes: Nodes, listen: Listen
) -> None:
    listen(1, 2)
    nodes.down = {LAST}
    assert listen() == []
    assert listen(3) == [EVERYONE]
    assert nodes.there[SECOND] == {client(1), client(2), client(3)}
    nodes.down = set()
    nodes.there.clear()
    assert listen() == []  # a node that did not answer is not tried at once
    nodes.now += DEAF + 0.1
    assert listen() == [EVERYONE]
    assert nodes.there == {LAST: {client(1), client(2), client(3)}}


def test_a_node_that_does_not_answer_a_change_is_left(nodes: Nodes, listen: Listen) -> None:
    nodes.down = {LAST, SECOND}
    assert [listen(1), listen(), listen()] == [[], [], [EVERYONE]]
    assert nodes.there == {FIRST: {client(1)}}


def test_a_message_for_a_client_that_is_not_heard_is_dropped(nodes: Nodes, listen: Listen) -> None:
    listen(1, 2)
    nodes.messages = [claim(1).encode(), claim(2).encode(), claim(3).encode(), b"\xff", b""]
    assert listen(off=[1]) == [Wake(claim(2), granted=False)]


def test_messages_are_read_while_clients_come_without_a_pause(nodes: Nodes, listen: Listen) -> None:
    listen(1)
    nodes.messages = [claim(1).encode()]
    assert listen(2) == [everyone_of(client(2)), Wake(claim(1), granted=False)]


def test_a_node_that_refuses_some_channels_is_not_left(nodes: Nodes, listen: Listen) -> None:
    nodes.refused = {LAST: {client(2)}}
    assert listen(1, 2) == [EVERYONE]
    nodes.messages = [claim(1).encode()]
    assert listen() == [Wake(claim(1), granted=False)]
    nodes.refused = {}
    nodes.now += AGAIN - 0.5
    assert listen() == []
    assert nodes.until == 1.0 + AGAIN  # not later: then it asks again
    nodes.now += 0.5
    assert listen() == [everyone_of(client(2))]
    assert set(nodes.asked) == {LAST}


@pytest.mark.parametrize("what", ["channels", "login"])
def test_a_node_that_refuses_is_left_for_a_while(
    nodes: Nodes, listen: Listen, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    def refuse(*refusing: Address) -> None:
        if what == "login":
            nodes.login = set(refusing)
        else:
            nodes.refused = {node: {client(1)} for node in refusing}

    refuse(SECOND, LAST)
    assert [listen(1), listen(), listen()] == [[], [], [EVERYONE]]
    assert nodes.there == {FIRST: {client(1)}}
    refuse(*NODES)
    nodes.there.clear()
    nodes.now += AGAIN + 1.0
    listen()
    listen()
    nodes.asked.clear()
    assert listen() == []
    refuse()
    nodes.now += AGAIN + 1.0
    assert listen() == [EVERYONE]
    assert nodes.there == {LAST: {client(1)}}
    if what == "channels":
        assert len(caplog.messages) == len(NODES)


def test_without_a_willing_node_it_waits_until_one_is_due(nodes: Nodes, listen: Listen) -> None:
    nodes.refused = {node: {client(1)} for node in NODES}
    for _ in NODES:
        assert listen(1) == []
    nodes.asked.clear()
    nodes.now += AGAIN - 0.5
    assert listen() == []
    assert (nodes.asked, nodes.paused) == ([], [1.0 + AGAIN])


def test_the_error_of_a_refused_channel_names_the_rights_of_redlock(
    nodes: Nodes, listen: Listen, caplog: pytest.LogCaptureFixture
) -> None:
    nodes.refused = {LAST: {client(1)}}
    listen(1)
    (told,) = caplog.messages
    for right in ("~lockfast:redlock:*", "+script", "+psetex", "+unsubscribe"):
        assert right in told
    assert f"{messages.PREFIX}{client(1)}" in told
