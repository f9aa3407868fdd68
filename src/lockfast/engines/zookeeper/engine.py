"""The ZooKeeper engine: implements the port with sessions, own claims and a recipe."""

from __future__ import annotations

from collections.abc import Sequence

from kazoo.protocol.serialization import Delete

from lockfast.engines import wall_clock
from lockfast.engines.one_by_one import singly
from lockfast.engines.zookeeper import guarantees, nodes
from lockfast.engines.zookeeper.break_records import Records
from lockfast.engines.zookeeper.failures import SessionLost, out_of_bounds
from lockfast.engines.zookeeper.inspection import Show
from lockfast.engines.zookeeper.listener import Listener
from lockfast.engines.zookeeper.own_claims import OwnClaims
from lockfast.engines.zookeeper.pool import Pool
from lockfast.engines.zookeeper.reaper import Reaper
from lockfast.engines.zookeeper.recipe import Recipe
from lockfast.engines.zookeeper.renewals import CHUNK, Found, Renewals, StandIn
from lockfast.engines.zookeeper.resigning import Resigning
from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.standing import Look
from lockfast.engines.zookeeper.threads import ThreadTransport
from lockfast.engines.zookeeper.token_base import Base
from lockfast.engines.zookeeper.transport import Late, Transport
from lockfast.engines.zookeeper.url import Address
from lockfast.errors import EngineUnavailable
from lockfast.guarantees import Guarantees
from lockfast.port import CLOSING, Ask, Page, Standing, Wake
from lockfast.runtime.base import Bell

IO = 5.0  # seconds after which an unanswered read is given up


class ZooKeeperEngine:
    """The engine of one client on a ZooKeeper ensemble."""

    bound = True  # its claims are ephemeral nodes

    def __init__(self, address: Address, transport: Transport, bell: Bell, base: int) -> None:
        """Connect to nothing yet. `base` is added to every new ticket."""
        self._address = address
        self._transport = transport
        self._bell = bell
        self._now = transport.now
        self._base = Base(address.root, base, transport)
        self._own = OwnClaims()
        self._reaper = Reaper(self._own, transport.now)
        self._listener = Listener(transport, bell, self._own, self._base.path)
        self._look = self._listener.look
        self._pool = Pool(address, transport, self._listener)
        self._recipe = Recipe(transport, self._base, self._own, self._reaper, self._look)
        self._renewals = Renewals(transport, self._own, self._recipe, self._look)
        self._resigning = Resigning(address.root, transport, self._own, self._pool, self._recipe)

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Append a claim and report its standing: two requests that are sent together."""
        if self._own.is_dead(ask, self._now()):
            return None
        folder = nodes.folder(self._address.root, ask.shape.name)
        try:
            with self._pool.of(ask.shape.ttl) as session:
                await self._prepare(session, ask.shape.ttl, deadline)
                await self._recipe.prune(folder, deadline, session)
                mine = self._own.get(ask.id)
                if mine is None:
                    return await self._recipe.enter(ask, session, folder, deadline)
                return await self._recipe.find(mine, deadline)
        except SessionLost:
            return None  # the server deletes its node with the session, and the id is dead

    async def _prepare(self, session: Session, ttl: float, deadline: float) -> None:
        """Wait until a session is connected, and check its timeout and the token base."""
        if not session.usable or session.checked != session.changes:
            await session.ready(deadline)
            if session.negotiated != session.asked:
                self._pool.drop_unused(session)
                raise out_of_bounds(ttl, session.negotiated / 1000, session.where)
            await self._base.check(session, deadline)

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Append several claims, one by one."""
        return await singly(self.claim, asks, deadline)

    async def renew(self, asks: Sequence[Ask], deadline: float) -> list[Found]:
        """Extend claims: a transaction or `sync` for each chunk, and a list for each name."""
        return await self._renewals.renew(asks, deadline)

    def stand_in(self) -> StandIn:
        """Return a blocking renewer. It uses the same sessions, which kazoo's threads keep alive
        while the event loop is blocked, and waits for their replies in its own thread.
        """
        transport = ThreadTransport(self._now)
        look = Look(transport, self._own, self._listener.worth_a_look)
        recipe = Recipe(transport, self._base, self._own, self._reaper, look)
        return StandIn(transport, self._own, recipe, look)

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        """Remove claims for good. With `doubt`, also refuse later copies of them."""
        if doubt:
            now = self._now()
            for ask in asks:
                self._own.entomb(ask, now)
        return await self._resigning.resign(asks, deadline)

    def hear(self, client: str, *, on: bool) -> None:
        """Start or stop receiving the wakes of a client."""
        self._listener.hear(client, on=on)

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Send deletions without waiting, for claims whose node is known."""
        for ask in asks[:CHUNK]:
            mine = self._own.get(ask.id)
            if mine is not None and mine.child is not None and mine.session.usable:
                mine.gone = True
                mine.session.send(self._transport, Delete(f"{mine.folder}/{mine.child}", -1))

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Wait until a watch fires, `rouse` is called or the deadline comes; return the wakes."""
        return await self._listener.listen(deadline)

    def rouse(self) -> None:
        """Make `listen` return now."""
        self._bell.ring()

    def time(self, name: str) -> float:  # noqa: ARG002  # one clock for all names
        """Return the wall clock of this process, because ZooKeeper does not compare `not_after`.
        What that means for replicas of the service is in `wall_clock`.
        """
        return wall_clock.seconds()

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Return the claims on one name, or on the next names with a prefix."""
        deadline = self._now() + IO
        try:
            with self._pool.any() as session:
                await session.ready(deadline)
                show = Show(self._transport, session, deadline)
                root = self._address.root
                if exact:
                    return Page(await show.one(root, names, self._own), None)
                return await show.page(root, names, cursor, self._own)
        except SessionLost as error:
            raise EngineUnavailable("the session was lost", sent=False) from error

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:  # noqa: ARG002  # the port's
        """Keep the record of a break: a read and a write."""
        try:
            with self._pool.any() as session:
                await (await self._records(session, deadline)).keep(name, record)
        except SessionLost as error:
            raise EngineUnavailable("the session was lost", sent=True) from error

    async def records(self, name: str, deadline: float) -> list[bytes]:
        """Return the records of a name, the newest first."""
        try:
            with self._pool.any() as session:
                return await (await self._records(session, deadline)).read(name)
        except SessionLost as error:
            raise EngineUnavailable("the session was lost", sent=False) from error

    async def _records(self, session: Session, deadline: float) -> Records:
        await session.ready(deadline)
        return Records(self._transport, session, self._address.root, deadline)

    async def guarantees(self, deadline: float) -> Guarantees:
        """Ask the ensemble for its members, version and bounds, and return what it promises."""
        try:
            with self._pool.any() as session:
                await session.ready(deadline)
                return await guarantees.ask(self._transport, session, self._address, deadline)
        except SessionLost as error:
            raise EngineUnavailable("the session was lost", sent=False) from error

    def reset(self) -> None:
        """Close the sockets in a forked child, without sending anything to the server."""
        for session in self._pool.all():
            session.forget()

    async def close(self) -> None:
        """Close the sessions. A session with a claim that was not resigned is left to time out,
        because that claim is meant to stay, or it is not known whether it exists.
        """
        self._reaper.close()
        self._bell.close()
        sessions, until = self._pool.close(), self._now() + CLOSING
        for reply in [each.retire(alive=bool(self._own.on(each))) for each in sessions]:
            try:
                await self._transport.wait(reply, until)
            except Late:
                return
