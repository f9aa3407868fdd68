"""Talk: requests of several steps. Every step goes behind the ones before."""

from __future__ import annotations

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import Create, Delete, Exists, GetChildren, Sync

from lockfast.engines.zookeeper.kazoo_requests import CONTAINER, CreateContainer
from lockfast.engines.zookeeper.nodes import Line
from lockfast.engines.zookeeper.own_claims import OwnClaim
from lockfast.engines.zookeeper.proof import Proof
from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.transport import Reply, Transport


def make(transport: Transport, session: Session, path: str) -> list[Reply]:
    """Ask for a name's folder and all that is above it, if it is not there."""
    return [*make_above(transport, session, path), make_folder(transport, session, path)]


def make_above(transport: Transport, session: Session, path: str) -> list[Reply]:
    """Ask for all that is above a path, if it is not there."""
    parts = path.split("/")[1:]
    above = ["/" + "/".join(parts[: n + 1]) for n in range(len(parts) - 1)]
    return [session.send(transport, Create(each, b"", session.acl, 0)) for each in above]


def make_folder(transport: Transport, session: Session, path: str) -> Reply:
    """Ask for a folder that goes by itself when it has become empty: names do not leak."""
    return session.send(transport, CreateContainer(path, b"", session.acl, CONTAINER))


async def glanced(transport: Transport, session: Session, folder: str, deadline: float) -> Line:
    """Read the claims on a name, as the server's leader has them: one that was replaced and does
    not know it yet may show an old list. Nothing may follow from what is missing in it.
    """
    sync = session.send(transport, Sync(folder))
    children = session.send(transport, GetChildren(folder, None))
    await session.settle(transport, sync, deadline)
    return await listed(transport, session, folder, children, deadline)


async def lined(transport: Transport, session: Session, folder: str, deadline: float) -> Line:
    """Read the claims on a name, not older than this call: behind a transaction of our own."""
    proof = Proof(transport, session, folder)
    children = session.send(transport, GetChildren(folder, None))
    await proof.settle(deadline)
    return await listed(transport, session, folder, children, deadline)


async def listed(
    transport: Transport, session: Session, folder: str, children: Reply, deadline: float
) -> Line:
    """Make a line of a list of children that was asked for."""
    try:
        line = Line(await session.settle(transport, children, deadline))
    except NoNodeError:
        return Line([])
    if not line.worn:
        return line
    names = [node.child for node in line.nodes]
    replies = [session.send(transport, Exists(f"{folder}/{name}", None)) for name in names]
    stats = [await session.settle(transport, reply, deadline) for reply in replies]
    zxids = {name: stat.czxid for name, stat in zip(names, stats, strict=True) if stat is not None}
    return Line(zxids, zxids)


async def remove(transport: Transport, mine: OwnClaim, deadline: float) -> bool:
    """Remove a claim's node; False if it was not there.

    Without the node's name, ask for it. The question stands behind the claim on the same session,
    also when the connection was lost in between: a server that still has the claim in its hands may
    not apply it any more, once another speaks for the session. So what is not found never comes.
    """
    session, folder = mine.session, mine.folder
    names = [mine.child]
    if mine.child is None:
        line = await lined(transport, session, folder, deadline)
        names = [node.child for node in line.nodes if node.id == mine.id]
    replies = [session.send(transport, Delete(f"{folder}/{name}", -1)) for name in names]
    removed = False
    for reply in replies:
        try:
            await session.settle(transport, reply, deadline)
            removed = True
        except NoNodeError:
            continue
    return removed
