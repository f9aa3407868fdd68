"""The token base: a number that is added to every new ticket. The highest ever used is stored."""

from __future__ import annotations

import re

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.protocol.serialization import Create, Exists, GetData, SetData

from lockfast.core.token import LIMIT
from lockfast.engines.zookeeper.messages import make_above
from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.transport import Transport
from lockfast.errors import EngineRefused


class Base:
    """One client's token base, which is checked against the stored one."""

    def __init__(self, root: str, value: int, transport: Transport) -> None:
        """Store nothing yet."""
        self.path = f"{root}/base"
        self.value = value
        self._transport = transport

    def lift(self, zxid: int) -> int:
        """Return the ticket of a node that the transaction `zxid` created."""
        ticket = zxid + self.value
        if zxid <= 0:
            raise EngineRefused(f"the ensemble gave a transaction the number {zxid}")
        if ticket >= LIMIT:
            raise EngineRefused(f"ticket {ticket} would reach 2**53: token_base is too high")
        return ticket

    async def check(self, session: Session, deadline: float) -> None:
        """Store our base if it is higher than the stored one, and raise `EngineRefused` if it is
        lower. A watch reports a later change before the reply to any claim after that change.
        """
        while True:
            changes = session.changes
            exists = session.send(self._transport, Exists(self.path, session.watcher))
            read = session.send(self._transport, GetData(self.path, None))
            try:
                await session.settle(self._transport, exists, deadline)
                data, stat = await session.settle(self._transport, read, deadline)
                ruling, version = self._read(data), stat.version
            except NoNodeError:
                ruling, version = 0, -1
            if ruling > self.value:
                raise EngineRefused(
                    f"other clients use token_base={ruling} here: connect with the same one, or "
                    "the tokens of this client would be lower than theirs. If that base was a "
                    f"mistake, and no guard has seen such a token, delete {self.path}"
                )
            if ruling == self.value:
                session.checked = changes
                return
            await self._store(session, version, deadline)  # our own change counts too: read again

    def _read(self, data: bytes | None) -> int:
        """Parse the stored base. Other programs may have written anything there."""
        if data is None or not re.fullmatch(rb"[0-9]{1,16}", data) or int(data) >= LIMIT:
            raise EngineRefused(f"{self.path} does not contain a token base: correct or delete it")
        return int(data)

    async def _store(self, session: Session, version: int, deadline: float) -> None:
        data = b"%d" % self.value
        try:
            if version >= 0:
                reply = session.send(self._transport, SetData(self.path, data, version))
                await session.settle(self._transport, reply, deadline)
                return
            replies = make_above(self._transport, session, self.path)
            last = session.send(self._transport, Create(self.path, data, session.acl, 0))
            for reply in replies:
                try:
                    await session.settle(self._transport, reply, deadline)
                except NodeExistsError:
                    continue
            await session.settle(self._transport, last, deadline)
        except (BadVersionError, NodeExistsError):
            pass  # another client was quicker
