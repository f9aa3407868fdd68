"""The witness: sees what engine, clients and resources do, and knows the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lockfast.claims.claim import Claim
from lockfast.claims.phases import HELD
from lockfast.core.queue import Queues
from lockfast.errors import Loss
from lockfast.guards.mark import Shown
from lockfast.port import Ask
from tests.robustness.simulation.world import Broken, Process, World

if TYPE_CHECKING:
    from tests.robustness.simulation.party import Party
    from tests.robustness.simulation.server import Request, Server

NEAR = 1e-6  # seconds by which two clocks may disagree for rounding


class Witness:
    """Raises `Broken` as soon as a rule is."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.server: Server
        self.parties: list[Party] = []
        self.seen: Counter[str] = Counter()
        """What happened how often: a run in which nothing happens shows nothing."""
        self.amnesia = False
        """Whether the engine has lost data."""
        self.calm = False
        """Whether nothing fails in this run that could cost a lease."""
        self._highest: dict[str, int] = {}  # ticket that was given, by name
        self._let_in: dict[str, int] = {}  # highest ticket that was let in, by name
        self._tickets: dict[str, set[int]] = {}  # of each id: one, unless the engine lost it
        self._order: dict[str, int] = {}  # the how-manieth grant an id was
        self._given_up: set[str] = set()
        """Claims whose resignation was sent."""
        self._resigned: set[str] = set()
        self._excused: set[str] = set()  # claims that the engine lost
        self._marks: dict[str, tuple[int, str]] = {}
        self._latest: dict[str, int] = {}  # the latest grant that came to the register
        self._writers: dict[str, Shown] = {}  # whose write came last

    # --- the engine ---------------------------------------------------------------------------

    def told(self, asks: Iterable[Ask]) -> None:
        """Check that a client tells the engine only what the engine has told the client."""
        for ask in asks:
            if ask.ticket and ask.ticket not in self._tickets.get(ask.id, ()):
                raise Broken(f"{ask.id[20:]} is sent with {ask.ticket}, which is not its ticket")
            if ask.granted and ask.id not in self._order:
                raise Broken(f"{ask.id[20:]} is sent as granted, and was not granted")

    def before(self, queues: Queues, request: Request) -> set[str]:
        """Note who is there before a request."""
        return {
            member.ask.id
            for ask in request.asks
            for member in queues._queues.get(ask.shape.name, ())
        }

    def after(self, queues: Queues, request: Request, present: set[str]) -> None:
        """Check the queues after a request."""
        if request.kind == "resign":
            self._resigned.update(ask.id for ask in request.asks)
        for name in {ask.shape.name for ask in request.asks}:
            self._queue(name, queues, request.kind, present)
        for party in self.parties:
            if not party.crashed:
                self.beliefs(party, changed=True)

    def _queue(self, name: str, queues: Queues, kind: str, present: set[str]) -> None:
        weight = 0
        kinds = {entry.kind for entry in queues.entries(name, self.server.clock())}
        if len(kinds) > 1:
            raise Broken(f"{name} has claims of several kinds")
        for entry in queues.entries(name, self.server.clock()):
            if entry.id not in present and kind != "claim":
                raise Broken(f"a {kind} brought {entry.id[20:]} on {name} to life")
            if entry.id in self._resigned:
                raise Broken(f"{entry.id[20:]} on {name} lives after its resignation")
            if entry.ticket not in self._tickets.get(entry.id, ()):
                self._minted(entry.id, name, entry.ticket)
            if entry.granted:
                weight += entry.weight
                if entry.id not in self._order:
                    self._granted(entry.id, name, entry.ticket)
                if weight > entry.capacity:
                    raise Broken(f"{name} is granted beyond its capacity")

    def _minted(self, id_: str, name: str, ticket: int) -> None:
        if ticket <= self._highest.get(name, 0):
            raise Broken(f"ticket {ticket} on {name} after {self._highest[name]}")
        self._highest[name] = ticket
        self._tickets.setdefault(id_, set()).add(ticket)

    def reminted(self, ask: Ask, token: int) -> None:
        """Take note of a token that was given out in a step of its own."""
        self._tickets.setdefault(ask.id, set()).add(token)

    def _granted(self, id_: str, name: str, ticket: int) -> None:
        if ticket < self._let_in.get(name, 0):
            raise Broken(f"ticket {ticket} on {name} was let in after {self._let_in[name]}")
        self._let_in[name] = ticket
        self._order[id_] = len(self._order) + 1
        self.seen["grants"] += 1

    def forget(self, queues: Queues) -> None:
        """The engine loses data: holders of before are excused."""
        self._excused.update(claim.id for party in self.parties for claim in party.claims())
        self._excused.update(m.ask.id for queue in queues._queues.values() for m in queue)
        self._resigned.clear()
        self._let_in.clear()
        self._latest.clear()
        self.amnesia = True

    def shaken(self, queues: Queues, now: float) -> None:
        """The engine has lost data, or its clock went back. Tokens still grow, unless both counter
        and clock are below what was given out.
        """
        if max(self._highest.values(), default=0) >= max(queues.last + 1, now * 1e6):
            self.seen["tokens that may repeat"] += 1
            self._highest.clear()

    # --- the clients --------------------------------------------------------------------------

    def beliefs(self, party: Party, *, changed: bool) -> None:
        """Check that who believes to hold has a lease that lasts as long; only of what a client
        has newly come to believe, or of all, after something has changed in the engine.
        """
        for claim in party.session.table._by_id.values():
            if self.calm and claim.loss not in {None, Loss.RELEASED}:
                raise Broken(f"{party.process.name} lost {claim.shape.name} for no reason")
            if claim.phase is HELD and (changed or party.believed.get(claim.id) != claim.until):
                party.believed[claim.id] = claim.until
                if claim.loss is None and claim.id not in self._excused:
                    self._believes(claim, party.process)

    def _believes(self, claim: Claim, process: Process) -> None:
        left = (claim.until - process.time()) / process.rate
        if left <= NEAR:
            return
        name, now = claim.shape.name, self.server.clock()
        for member in self.server.queues._queues.get(name, ()):
            if member.ask.id == claim.id:
                if not member.granted:
                    raise Broken(f"{process.name} holds {name} without a grant")
                if left > member.expires - now + NEAR:
                    raise Broken(
                        f"{process.name} believes in {name} for {left:.4f} s more, "
                        f"its lease lasts {member.expires - now:.4f} s"
                    )
                return
        raise Broken(f"{process.name} believes in {name} for {left:.4f} s more, its lease is gone")

    def claiming(self, asks: Iterable[Ask], process: Process) -> None:
        """Check that nobody sends a claim that it has resigned before."""
        for ask in asks:
            if ask.id in self._given_up:
                raise Broken(f"{process.name} sends {ask.id[20:]} after its resignation")

    def resigning(self, asks: Iterable[Ask], process: Process) -> None:
        """Check that nobody gives back before the time that it asked for, unless it is lost."""
        claims = {claim.id: claim for party in self.parties for claim in party.claims()}
        for ask in asks:
            self._given_up.add(ask.id)
            claim = claims.get(ask.id)
            if claim and process.time() < claim.keep and claim.loss is Loss.RELEASED:
                raise Broken(f"{process.name} gives {ask.shape.name} back too early")

    # --- the resources ------------------------------------------------------------------------

    def admitted(self, shown: Shown) -> None:
        """Check what a guard has let in."""
        name, token, id_ = shown.name, shown.token, shown.id
        highest, owner = self._marks.get(name, (0, ""))
        if token < highest or (token == highest and owner != id_ and not shown.shared):
            raise Broken(f"{name} let {id_[20:]} in with {token} after {owner[20:]} with {highest}")
        if token not in self._tickets.get(id_, ()):
            raise Broken(f"{name} let {id_[20:]} in with {token}, which is not its token")
        if shown.shared:  # there may be later ones beside it
            self._marks[name] = max((highest, owner), (shown.floor, ""))
            return
        self._marks[name] = (token, id_)
        order = self._order.get(id_, 0)
        if order < self._latest.get(name, 0) and id_ not in self._excused:
            raise Broken(f"{name} let {id_[20:]} in after a later grant had been there")
        self._latest[name] = max(order, self._latest.get(name, 0))

    def refused(self, shown: Shown) -> None:
        """Check what a guard has not let in: never who holds, while the engine remembers."""
        self.seen["refusals"] += 1
        for entry in self.server.queues.entries(shown.name, self.server.clock()):
            if entry.id == shown.id and entry.granted and not self.amnesia:
                raise Broken(f"{shown.name} refused {shown.id[20:]}, who holds it")

    def written(self, shown: Shown, read: int, value: int) -> None:
        """Check a write that was let in."""
        self.seen["writes"] += 1
        if read != value:
            raise Broken(
                f"an update of {shown.name} was lost: {value} was written over by {read}+1"
            )
        self._writers[shown.name] = shown

    def reread(self, shown: Shown, read: int, value: int) -> None:
        """Check what a reader that was let in twice has found.

        Only a writer that the engine has forgotten, between the reader's floor and its ticket, may
        have written since: no mark refuses it (tests/guards/test_mark.py, and the page on guards).
        It has the reader's very ticket only if tokens repeat: see `shaken`, or `_minted` objects.
        """
        self.seen["readings"] += 1
        if read == value:
            return
        writer = self._writers[shown.name]
        if writer.id in self._excused and shown.floor <= writer.token <= shown.token:
            self.seen["readings beside a forgotten writer"] += 1
        else:
            raise Broken(f"{shown.name} changed from {read} to {value} under {shown.id[20:]}")
