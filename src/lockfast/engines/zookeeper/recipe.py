"""The recipe: adds a claim to its queue, finds it there again, and withdraws it."""

from __future__ import annotations

from contextlib import suppress

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import Create2, GetChildren

from lockfast.core.record import other_format
from lockfast.engines.zookeeper import nodes
from lockfast.engines.zookeeper.failures import SessionLost
from lockfast.engines.zookeeper.kazoo_requests import EPHEMERAL_SEQUENTIAL
from lockfast.engines.zookeeper.messages import glanced, lined, listed, make, make_folder, remove
from lockfast.engines.zookeeper.nodes import Line
from lockfast.engines.zookeeper.own_claims import OwnClaim, OwnClaims
from lockfast.engines.zookeeper.reaper import Reaper
from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.standing import Look
from lockfast.engines.zookeeper.token_base import Base
from lockfast.engines.zookeeper.transport import Transport
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable, KindMismatch
from lockfast.port import Ask, Standing

SEEN = 10_000  # folders and buckets that are remembered as existing
BRIEF = 1.0  # seconds at most for which a call waits for a session that it does not need
ATTEMPTS = 3  # the server may delete an empty folder before its use, but not every time


class Recipe:
    """Sends the claims of one engine, and registers them with its own claims and reaper."""

    def __init__(
        self, transport: Transport, base: Base, own: OwnClaims, reaper: Reaper, look: Look
    ) -> None:
        """Start without knowledge of any folder."""
        self._transport = transport
        self._now = transport.now
        self._base = base
        self._own = own
        self._reaper = reaper
        self._look = look
        self._seen: dict[str, None] = {}

    async def enter(
        self, ask: Ask, session: Session, folder: str, deadline: float
    ) -> Standing | None:
        """Send a claim for the first time, and return its standing. None: the id is dead.

        It is dead too if another engine has added the claim before. An ephemeral node cannot change
        its owner, so the claim would end with that engine's session, at any moment.
        """
        if not ask.queue:  # reading is cheaper than a node that is created and deleted
            line = await glanced(self._transport, session, folder, deadline)
            if line.found(ask.id):
                return None
            _agree(ask, line)
            weight = sum(node.weight for node in line.nodes) + ask.shape.weight
            if line.granted < len(line.nodes) or weight > ask.shape.capacity:
                return await self._look.refused(session, folder, line, deadline)
        now = self._now()
        if self._own.is_dead(ask, now):  # it waited for a connection until now
            return None
        mine = OwnClaim(ask, folder, session, now + ask.shape.wait_ttl)
        self._own.enter(mine)
        self._reaper.expect(mine.deadline)
        return await self._append(mine, deadline)

    async def find(self, mine: OwnClaim, deadline: float) -> Standing | None:
        """Find the node of an earlier copy of a claim, and return its standing. The deadline of the
        claim does not change.

        If there is no node, the id is dead. Either no copy arrived, or one arrived and was broken.
        We cannot tell which, and a second node would bring a broken claim back to life.
        """
        await mine.session.ready(deadline)
        asked = self._now()
        line = await lined(self._transport, mine.session, mine.folder, deadline)
        if await self._look.identified(mine, line, deadline):
            return await self._joined(mine, line, asked, deadline)
        self._own.entomb(mine.ask, self._now())
        self._own.take(mine)
        return None

    async def _append(self, mine: OwnClaim, deadline: float) -> Standing | None:
        """Create the node and list its queue. Both requests together take one round trip."""
        ask, session, folder = mine.ask, mine.session, mine.folder
        bucket = folder.rpartition("/")[0]
        path = f"{folder}/{nodes.stem(ask)}"
        data = nodes.packed(ask, self._base.value)
        request = Create2(path, data, session.acl, EPHEMERAL_SEQUENTIAL)
        try:
            for _ in range(ATTEMPTS):
                # Do not wait for these replies. The server refuses to create a node that exists,
                # and handles the claim after these requests.
                if bucket not in self._seen:
                    make(self._transport, session, folder)
                elif folder not in self._seen:
                    make_folder(self._transport, session, folder)
                sent = self._now()
                create = session.send(self._transport, request)
                children = session.send(self._transport, GetChildren(folder, None))
                try:
                    path, stat = await session.settle(self._transport, create, deadline)
                    break
                except NoNodeError:
                    first = folder not in self._seen
                    self._seen.pop(folder, None)
                    # The folder was created just before, so its bucket must be missing.
                    if first:
                        self._seen.pop(bucket, None)
            else:
                raise EngineUnavailable(
                    f"another client deletes {folder} again and again", sent=False
                )
            mine.child = path.rpartition("/")[2]
            mine.ticket = self._base.lift(stat.czxid)
        except EngineRefused:
            await self.withdraw(mine, deadline)
            raise
        except SessionLost:
            self._own.take(mine)
            raise
        if len(self._seen) >= SEEN:
            self._seen.clear()
        self._seen[bucket] = self._seen[folder] = None
        session.prove(sent)
        line = await listed(self._transport, session, folder, children, deadline)
        return await self._appended(mine, line, sent, deadline)

    async def _appended(
        self, mine: OwnClaim, line: Line, sent: float, deadline: float
    ) -> Standing | None:
        """Return the standing of a claim whose node is new, unless another engine was quicker."""
        shape, place = mine.ask.shape, line.place(mine.child or "")
        if any(node.id == mine.id for node in line.nodes[: place or 0]):
            self._own.entomb(mine.ask, self._now())
            await self.withdraw(mine, deadline)
            return None
        life = shape.ttl if place is not None and place < line.granted else shape.wait_ttl
        if not self._own.extend(mine, sent + life, self._now()):
            return None  # it expired before the reply came, and the reaper removes it
        return await self._joined(mine, line, sent, deadline)

    async def _joined(
        self, mine: OwnClaim, line: Line, sent: float, deadline: float
    ) -> Standing | None:
        """Return the standing of a claim in its queue. Withdraw a claim that may not stay there."""
        ask = mine.ask
        await self.admit(mine, line, deadline)
        standing = await self._look.standing(mine, line, sent, deadline)
        if standing is not None and standing.granted:
            self._own.tell(mine, self._now())
        elif standing is not None and not ask.queue:
            await self.withdraw(mine, deadline)
            blocker = standing.blocker
            return Standing(0, granted=False, left=0.0, ahead=standing.ahead, blocker=blocker)
        return standing

    async def admit(self, mine: OwnClaim, line: Line, deadline: float) -> None:
        """Check that a claim may stay in its queue. Withdraw it and raise the reason if not.

        A claim that was admitted once is not checked again. Claims of another kind or format that
        come behind it are refused or wait, and must not end its lease.
        """
        if mine.admitted:
            return
        try:
            _agree(mine.ask, line)
        except (KindMismatch, EngineRefused):
            await self.withdraw(mine, deadline)
            raise
        mine.admitted = True

    async def withdraw(self, mine: OwnClaim, deadline: float) -> None:
        """Remove a claim that is not kept. If that fails, the reaper removes it later."""
        if self._own.doom(mine):
            try:
                await self.bury(mine, deadline)
            except EngineError:
                return

    async def prune(self, folder: str, deadline: float, needed: Session | None = None) -> None:
        """Remove our expired claims on a name, so that the next list does not contain them.

        `needed`: the session that the caller needs anyway, so this waits for it until `deadline`.
        For another session it waits briefly, and only if that session has a connection and answers.
        Otherwise a session in trouble would hold up the claims of healthy ones, which may expire
        meanwhile. The reaper removes what is left here. Until then it counts for this client as it
        does for all others: a new claim waits behind it, and is granted when the server deletes it.
        """
        for mine in self._own.doomed(self._now(), folder):
            session, now = mine.session, self._now()
            if session is needed:
                await self.bury(mine, deadline)
            elif session.usable and not session.silent:
                with suppress(EngineError):  # it is left to the reaper
                    await self.bury(mine, now + min(BRIEF, (deadline - now) / 2.0))
            else:
                self._reaper.expect(now)

    async def bury(self, mine: OwnClaim, deadline: float) -> None:
        """Remove a doomed claim. If that fails, raise the reason, and the reaper tries again."""
        try:
            await mine.session.ready(deadline)
            await remove(self._transport, mine, deadline)
        except SessionLost:
            pass  # the server deletes the node with it
        except BaseException:
            self._reaper.expect(self._now())
            raise
        self._own.buried(mine)


def _agree(ask: Ask, line: Line) -> None:
    """Raise `EngineRefused` if there is a claim in another format in the queue, and `KindMismatch`
    if the head is of another kind than the claim.

    A claim in another format counts behind ours too. Its client may have granted it beside a head
    that is gone by now.
    """
    name, kind = ask.shape.name, ask.shape.kind
    if line.other is not None:
        raise other_format(name, line.other)
    ruling = line.nodes[0].kind if line.nodes else None
    if ruling is not None and ruling is not kind:
        raise KindMismatch(name, kind.words, ruling.words)
