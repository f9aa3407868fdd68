"""Renewals of this client's claims, through the transport of the engine or of its stand-in."""

from __future__ import annotations

from collections.abc import Sequence

from kazoo.protocol.serialization import GetChildren

from lockfast.engines.zookeeper.failures import SessionLost
from lockfast.engines.zookeeper.messages import listed
from lockfast.engines.zookeeper.nodes import Line
from lockfast.engines.zookeeper.own_claims import OwnClaim, OwnClaims
from lockfast.engines.zookeeper.proof import CaughtUp, Proof
from lockfast.engines.zookeeper.recipe import Recipe
from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.standing import Look
from lockfast.engines.zookeeper.transport import Transport
from lockfast.errors import EngineError, KindMismatch
from lockfast.port import Ask, Standing

CHUNK = 64  # requests under way at once
RECENT = 0.02  # of the timeout: for so long, one proof serves all chunks of a renewal
Found = Standing | Exception | None


class Renewals:
    """Renews claims. The sessions and claims may be shared by several of these."""

    def __init__(self, transport: Transport, own: OwnClaims, recipe: Recipe, look: Look) -> None:
        """Use these parts of an engine. All of them wait by the same transport."""
        self._transport = transport
        self._now = transport.now
        self._own = own
        self._recipe = recipe
        self._look = look

    async def renew(self, asks: Sequence[Ask], deadline: float) -> list[Found]:
        """Extend claims: a transaction or `sync` for each chunk, and a list for each name."""
        found: list[Found] = [None] * len(asks)
        sessions: dict[Session, list[tuple[int, OwnClaim]]] = {}
        for place, ask in enumerate(asks):
            mine = self._own.get(ask.id)
            if mine is not None:
                sessions.setdefault(mine.session, []).append((place, mine))
        left = len(sessions)
        # A session with a silent server must not keep others from being renewed. So it comes last,
        # and no session gets more than its share of the time.
        for session in sorted(sessions, key=lambda each: each.silent):
            all_mine, now = sessions[session], self._now()
            end = now + max(deadline - now, 0.0) / left
            left -= 1
            for start in range(0, len(all_mine), CHUNK):
                await self._renew(session, all_mine[start : start + CHUNK], found, end)
        return found

    async def _renew(
        self,
        session: Session,
        chunk: list[tuple[int, OwnClaim]],
        found: list[Found],
        deadline: float,
    ) -> None:
        try:
            if not session.usable:  # do not wait: other sessions have claims to renew too
                session.check()
            folders = dict.fromkeys(mine.folder for _, mine in chunk)
            for folder in folders:
                await self._prune(folder, deadline, session)
            sent = self._now()
            proof = self._proof(session, chunk, sent)
            lists = {
                folder: session.send(self._transport, GetChildren(folder, None))
                for folder in folders
            }
            await proof.settle(deadline)
        except SessionLost:
            return
        except EngineError as error:
            for place, _ in chunk:
                found[place] = error
            return
        lines: dict[str, Line | Exception] = {}
        for folder, reply in lists.items():
            try:
                lines[folder] = await listed(self._transport, session, folder, reply, deadline)
            except (EngineError, SessionLost) as error:
                lines[folder] = error
        for place, mine in chunk:
            line = lines[mine.folder]
            found[place] = (
                await self._renew_one(mine, line, sent, deadline)
                if isinstance(line, Line)
                else line
            )

    async def _prune(self, folder: str, deadline: float, session: Session) -> None:
        await self._recipe.prune(folder, deadline, session)

    def _proof(
        self, session: Session, chunk: list[tuple[int, OwnClaim]], sent: float
    ) -> Proof | CaughtUp:
        """Prove that the session lives, unless the proof for an earlier chunk is recent. Always
        prove it if a claim's node is not known: a claim missing in the list must really be gone.
        """
        known = all(mine.child is not None for _, mine in chunk)
        recent = known and sent < session.anchor + RECENT * session.timeout
        return (CaughtUp if recent else Proof)(self._transport, session, chunk[0][1].folder)

    async def _renew_one(self, mine: OwnClaim, line: Line, sent: float, deadline: float) -> Found:
        try:
            if not await self._look.identified(mine, line, deadline):
                self._own.entomb(mine.ask, self._now())
                self._own.take(mine)
                return None
            await self._recipe.admit(mine, line, deadline)
            place = line.place(mine.child or "")
            shape = mine.ask.shape
            granted = place is not None and place < line.granted
            until = sent + (shape.ttl if granted else shape.wait_ttl)
            if not self._own.extend(mine, until, self._now()):
                return None
            standing = await self._look.standing(mine, line, sent, deadline)
        except SessionLost:
            return None
        except (EngineError, KindMismatch) as error:
            return error
        if standing is not None and standing.granted:
            self._own.tell(mine, self._now())
        return standing


class StandIn(Renewals):
    """The renewals of an asyncio engine while its event loop is blocked. It blocks.

    The sessions belong to the engine, so there is nothing to reset or to close here.
    """

    async def _prune(self, folder: str, deadline: float, session: Session) -> None:
        """Leave expired claims to the reaper: a session that has lost its connection waits for the
        next one by the event loop.
        """

    def reset(self) -> None:
        """Do nothing: the engine closes its sockets in a forked child."""

    async def close(self) -> None:
        """Do nothing: the engine closes its sessions."""
