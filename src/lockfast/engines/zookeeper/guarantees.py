"""What an ensemble promises, read from its live configuration."""

from __future__ import annotations

import re
import threading

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import GetData
from kazoo.protocol.states import WatchedEvent

from lockfast.engines.zookeeper.address import Address
from lockfast.engines.zookeeper.colour import Colour, Late
from lockfast.engines.zookeeper.session import Session
from lockfast.errors import EngineRefused
from lockfast.guarantees import Finding, Guarantees, Level

QUORUM = 3
FOR_EVER = 2_000_000.0  # seconds
USUAL = 30.0  # seconds: a lock's ttl, where its user says nothing
SOUND = (3, 9, 4)
"""The first version whose servers keep what was acknowledged while one of them caught up:
ZOOKEEPER-4643, -4646 and -4712 are fixed in 3.9.3, and -4925, which came with it, in 3.9.4."""
KEEPS = (
    "a grant survives the failure of any minority of the servers, and tokens stay unique and in "
    "order through it; a holder that was paused for longer than its ttl is fenced by its token"
)
STOPS = (
    "a crash keeps every grant, but no server may fail: until it is back, nothing is granted or "
    "renewed; tokens stay unique and in order while its data is kept"
)


class Deaf:
    """An ear for a session that only has to begin."""

    def told(self, session: Session, state: str) -> None:
        """Hear nothing."""

    def heard(self, session: Session, event: WatchedEvent) -> None:
        """Hear nothing."""


async def ask(colour: Colour, session: Session, address: Address, deadline: float) -> Guarantees:
    """Ask for the members, the version and the bounds of a session."""
    members = await _members(colour, session, deadline)
    version = await _version(colour, session, deadline)
    bounds = await _bounds(colour, address, deadline)
    engine = f"ZooKeeper {version}, {members} voting {'member' if members == 1 else 'members'}"
    findings = []
    if members < QUORUM:
        findings.append(
            Finding(
                f"voting members = {members}",
                "the failure of one stops every lock, and the loss of its data rewinds tokens",
                "Run an ensemble of three or five",
            )
        )
    elif re.match(r"\d", version) and tuple(map(int, version.split("."))) < SOUND:
        findings.append(
            Finding(
                f"version = {version}",
                "a server that is cut off while it catches up may lead afterwards, and the "
                "ensemble then forgets grants of that time; tokens stay unique and in order",
                f"Upgrade to {'.'.join(map(str, SOUND))} or later",
            )
        )
    shortest, longest = bounds
    if not shortest <= USUAL <= longest:
        findings.append(
            Finding(
                f"a session lasts {shortest:g} to {longest:g} s",
                "the default ttl of 30 s is refused",
                "Ask for another ttl, or set "
                + ("minSessionTimeout" if shortest > USUAL else "maxSessionTimeout"),
            )
        )
    level = Level.CONSENSUS if members >= QUORUM else Level.FENCED
    promise = KEEPS if members >= QUORUM else STOPS
    return Guarantees(
        engine, level, f"{promise}; a ttl is {shortest:g} to {longest:g} s", tuple(findings)
    )


async def _members(colour: Colour, session: Session, deadline: float) -> int:
    reply = session.send(colour, GetData("/zookeeper/config", None))
    try:
        data, _ = await session.settle(colour, reply, deadline)
    except (NoNodeError, EngineRefused):  # standalone, or not to be read by us
        return 1
    lines = data.decode().splitlines()
    return max(sum(bool(re.match(r"server\.\d+=.*:participant", line)) for line in lines), 1)


async def _version(colour: Colour, session: Session, deadline: float) -> str:
    """Ask by a four-letter word, in a thread: it is a connection of its own."""
    reply = colour.reply()

    def work() -> None:
        try:
            reply.set(session.command("srvr"))
        except Exception:  # noqa: BLE001  # it may be forbidden: then we do not know
            reply.set("")

    threading.Thread(target=work, name="lockfast-asks", daemon=True).start()
    try:
        found = re.search(r"version: (\d+\.\d+\.\d+)", await colour.wait(reply, deadline))
    except Late:
        found = None
    return found[1] if found else "of unknown version"


async def _bounds(colour: Colour, address: Address, deadline: float) -> tuple[float, float]:
    """Ask for impossible timeouts: the server answers with its bounds."""
    bounds = []
    for timeout in (0.001, FOR_EVER):
        session = Session(address, timeout, colour, Deaf())
        try:
            await session.ready(deadline)
            bounds.append(session.timeout)
        finally:
            session.retire()
    return bounds[0], bounds[1]
