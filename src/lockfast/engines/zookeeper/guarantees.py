"""Derives the guarantees of an ensemble from its live configuration."""

from __future__ import annotations

import re
import threading

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import GetACL, GetData
from kazoo.protocol.states import WatchedEvent
from kazoo.security import Permissions

from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.transport import Late, Transport
from lockfast.engines.zookeeper.url import Address
from lockfast.errors import EngineRefused
from lockfast.guarantees import Finding, Guarantees, Level

QUORUM = 3
CHANGING = Permissions.WRITE | Permissions.CREATE | Permissions.DELETE | Permissions.ADMIN
FOR_EVER = 2_000_000.0  # seconds
USUAL = 30.0  # seconds: the default ttl of a lock
SOUND = (3, 9, 4)
"""The first version that cannot forget acknowledged writes if a server is cut off while it catches
up. ZOOKEEPER-4643, -4646 and -4712 are fixed in 3.9.3, and -4925, which came with it, in 3.9.4."""
KEEPS = (
    "a grant survives the failure of any minority of the servers, and tokens stay unique and in "
    "order; a holder that is paused beyond its ttl may write late, and only a guard rejects that"
)
FORGETS = (
    "a grant survives the failure of any minority of the servers, except through the bugs that "
    "the findings name; tokens stay unique and in order also then, so a guarded resource is safe"
)
STOPS = (
    "a crash keeps every grant, but no server may fail: until it is back, nothing is granted or "
    "renewed; tokens stay unique and in order while its data is kept"
)


class Deaf:
    """Ignores all callbacks of a session that is opened only to read its timeout."""

    def told(self, session: Session, state: str) -> None:
        """Ignore the state."""

    def heard(self, session: Session, event: WatchedEvent) -> None:
        """Ignore the watch."""


async def ask(
    transport: Transport, session: Session, address: Address, deadline: float
) -> Guarantees:
    """Ask for the voting members, the version and the bounds of a session's timeout, and return the
    guarantees that follow.
    """
    members = await _members(transport, session, deadline)
    version = await _version(transport, session, deadline)
    bounds = await _bounds(transport, address, deadline)
    engine = f"ZooKeeper {version}, {members} voting {'member' if members == 1 else 'members'}"
    findings = _alone(members) or _forgetful(version)
    # Where the findings say that grants may be forgotten, the promise must not say otherwise.
    level, promise = (Level.FENCED, FORGETS) if findings else (Level.CONSENSUS, KEEPS)
    if members < QUORUM:
        promise = STOPS
    shortest, longest = bounds
    findings += [
        *_bounded(shortest, longest),
        *await _opened(transport, session, address, deadline),
    ]
    findings += address.weak
    return Guarantees(
        engine,
        level,
        f"{promise}; a ttl is {shortest:g} to {longest:g} s",
        tuple(findings),
        best=Level.CONSENSUS,
    )


def _alone(members: int) -> list[Finding]:
    if members >= QUORUM:
        return []
    return [
        Finding(
            f"voting members = {members}",
            "the failure of one stops every lock, and tokens go back if its data is lost",
            "Run an ensemble of three or five",
        )
    ]


def _forgetful(version: str) -> list[Finding]:
    sound = ".".join(map(str, SOUND))
    if not re.match(r"\d", version):
        return [
            Finding(
                "version = unknown",
                f"ensembles before {sound} may forget grants, and this one hides its version",
                "Set 4lw.commands.whitelist=srvr",
            )
        ]
    if tuple(map(int, version.split("."))) >= SOUND:
        return []
    return [
        Finding(
            f"version = {version}",
            "a server that is cut off while it catches up may lead afterwards, and the "
            "ensemble then forgets grants of that time; tokens stay unique and in order",
            f"Upgrade to {sound} or later",
        )
    ]


def _bounded(shortest: float, longest: float) -> list[Finding]:
    if shortest <= USUAL <= longest:
        return []
    return [
        Finding(
            f"a session lasts {shortest:g} to {longest:g} s",
            "ZooKeeper rejects the default ttl of 30 s",
            "Use another ttl, or set "
            + ("minSessionTimeout" if shortest > USUAL else "maxSessionTimeout"),
        )
    ]


async def _opened(
    transport: Transport, session: Session, address: Address, deadline: float
) -> list[Finding]:
    """Report an ACL by which every client may change our nodes: that of the root node, or the one
    with which we would create it.
    """
    reply = session.send(transport, GetACL(address.root))
    try:
        acl, _ = await session.settle(transport, reply, deadline)
    except NoNodeError:
        acl = address.acl
    except EngineRefused:  # we may not read it, so it is not open
        return []
    if not any(each.id.scheme == "world" and each.perms & CHANGING for each in acl):
        return []
    return [
        Finding(
            f"ACL of {address.root} = world:anyone",
            "every client of the ensemble can delete a lock that is held, and another process "
            "then acquires it",
            "Connect with zookeeper://user:password@... or with a client certificate, below a "
            "node that does not exist yet",
        )
    ]


async def _members(transport: Transport, session: Session, deadline: float) -> int:
    reply = session.send(transport, GetData("/zookeeper/config", None))
    try:
        data, _ = await session.settle(transport, reply, deadline)
    except (NoNodeError, EngineRefused):  # standalone, or we may not read it
        return 1
    lines = (data or b"").decode(errors="replace").splitlines()
    return max(sum(bool(re.match(r"server\.\d+=.*:participant", line)) for line in lines), 1)


async def _version(transport: Transport, session: Session, deadline: float) -> str:
    """Return the version by a four-letter command, in a thread: it blocks on its own connection."""
    reply = transport.reply()

    def work() -> None:
        try:
            reply.set(session.command("srvr"))
        except Exception:  # noqa: BLE001  # the server may forbid the command
            reply.set("")

    threading.Thread(target=work, name="lockfast-asks", daemon=True).start()
    try:
        found = re.search(
            r"version: (\d{1,4}\.\d{1,4}\.\d{1,4})", await transport.wait(reply, deadline)
        )
    except Late:
        found = None
    return found[1] if found else "of unknown version"


async def _bounds(transport: Transport, address: Address, deadline: float) -> tuple[float, float]:
    """Return the shortest and the longest timeout of a session. The server answers a request for an
    impossible timeout with its bound.
    """
    bounds = []
    for timeout in (0.001, FOR_EVER):
        session = Session(address, timeout, transport, Deaf())
        try:
            await session.ready(deadline)
            bounds.append(session.timeout)
        finally:
            session.retire()
    return bounds[0], bounds[1]
