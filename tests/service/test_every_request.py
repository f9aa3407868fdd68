"""Every request gets exactly one reply, whatever the engine does, and nothing is left behind."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from lockfast.engines.remote.messages import (
    Break,
    Claim,
    Goaway,
    Inspect,
    Renew,
    Request,
    Resign,
    Welcome,
    Woken,
)
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.runtime.aio import Aio
from lockfast.service.replica import Replica
from tests.service.peers import Held, Peer, in_loop, settle

NAMES = ["a", "b", "c"]
ERRORS = [
    EngineRefused("no"),
    EngineUnavailable("gone", sent=True),
    EngineUnavailable("gone", sent=False),
    ZeroDivisionError("a bug"),
]
Step = tuple[str, int, list[tuple[str, int]]]
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.tuples(
        st.sampled_from(["claim", "renew", "urgent", "resign", "bury", "break", "inspect"]),
        st.integers(0, 2),
        st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 2)), min_size=1, max_size=4),
    ),
    st.tuples(st.just("fail"), st.integers(0, len(ERRORS) - 1), st.builds(list[tuple[str, int]])),
    st.tuples(
        st.sampled_from(["hold", "go", "settle", "hide"]),
        st.just(0),
        st.builds(list[tuple[str, int]]),
    ),
    st.tuples(st.just("leave"), st.integers(0, 2), st.builds(list[tuple[str, int]])),
)


def request(verb: str, peer: Peer, n: int, claims: list[tuple[str, int]]) -> Request:
    asks = [peer.new(name) for name, _ in claims]
    for ask, (name, number) in zip(asks, claims, strict=True):  # ids come again
        ask.id = f"{peer.client}{ord(name):05x}{number:05x}"
    if verb == "claim":
        return Claim(n, 1.0, asks)
    if verb in {"renew", "urgent"}:
        return Renew(n, 1.0, asks, urgent=verb == "urgent")
    if verb in {"resign", "bury"}:
        return Resign(n, 1.0, asks, doubt=verb == "bury")
    return Break(n, 1.0, asks) if verb == "break" else Inspect(n, claims[0][0])


class Scene:
    """Three clients, what they have asked and which replies they have got."""

    def __init__(self) -> None:
        self.held = Held()
        self.replica = Replica(self.held.made, Aio())
        self.peers = [Peer(self.replica) for _ in range(3)]
        self.asked: list[Counter[int]] = [Counter() for _ in self.peers]
        self.got: list[Counter[int]] = [Counter() for _ in self.peers]
        for peer in self.peers:
            peer.greet(hear=True)

    async def step(self, n: int, step: Step) -> None:
        verb, which, claims = step
        if verb == "fail":
            self.held.failures.append(ERRORS[which])
        elif verb == "hold":
            self.held.holding = {"claim", "renew", "resign", "bury", "inspect"}
        elif verb == "go":
            self.held.let_go()
        elif verb == "hide":
            self.held.hidden = True
        elif verb == "settle":
            await settle()
        elif verb == "leave":
            self.peers[which].connection.end()
        else:
            self.asked[which][n] += 1
            self.peers[which].send(request(verb, self.peers[which], n, claims))

    def read(self) -> None:
        for peer, got in zip(self.peers, self.got, strict=True):
            for reply in peer.all():
                if not isinstance(reply, Woken):
                    assert not isinstance(reply, Welcome | Goaway)
                    got[reply.n] += 1

    def complete(self) -> bool:
        """Return whether all clients that have not left have all replies, and none twice."""
        for peer, asked, got in zip(self.peers, self.asked, self.got, strict=True):
            assert got <= asked
            if got != asked and not peer.connection.ended:
                return False
        return self._idle()

    def _idle(self) -> bool:
        claims, heart = self.replica.claims, self.replica._heart
        assert heart is not None
        return not heart._pending and not any(
            each._keys or each._calls or each._alone
            for each in (claims._claims, *claims._resignations.values())
        )


@settings(max_examples=100)
@given(steps=st.lists(STEPS, min_size=3, max_size=25))
@in_loop
async def test_every_request_gets_one_reply(steps: list[Step]) -> None:
    scene = Scene()
    for n, step in enumerate(steps):
        await scene.step(n, step)
    scene.held.failures.clear()
    for _ in range(200):
        scene.held.let_go()
        await asyncio.sleep(0.002)
        scene.read()
        if scene.complete():
            break
    assert scene.complete()
    assert all(not peer.connection._unanswered or peer.connection.ended for peer in scene.peers)
    await scene.replica.close()
