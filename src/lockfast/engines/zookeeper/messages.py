"""Operations of several requests. A session applies its requests in the order of sending."""

from __future__ import annotations

from collections.abc import Sequence

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import Create, Delete, Exists, GetChildren, Sync

from lockfast.engines.zookeeper.kazoo_requests import CONTAINER, CreateContainer
from lockfast.engines.zookeeper.nodes import Line
from lockfast.engines.zookeeper.own_claims import OwnClaim
from lockfast.engines.zookeeper.proof import Proof
from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.transport import Reply, Transport


def make(transport: Transport, session: Session, path: str) -> list[Reply]:
    """Send requests that create a name's folder and all nodes above it. Return their replies, which
    are errors for nodes that exist.
    """
    return [*make_above(transport, session, path), make_folder(transport, session, path)]


def make_above(transport: Transport, session: Session, path: str) -> list[Reply]:
    """Send requests that create all nodes above a path. Return their replies, which are errors for
    nodes that exist.
    """
    parts = path.split("/")[1:]
    above = ["/" + "/".join(parts[: n + 1]) for n in range(len(parts) - 1)]
    return [session.send(transport, Create(each, b"", session.acl, 0)) for each in above]


def make_folder(transport: Transport, session: Session, path: str) -> Reply:
    """Send a request that creates a name's folder. It is a container: the server deletes it once it
    has become empty, so that unused names do not accumulate.
    """
    return session.send(transport, CreateContainer(path, b"", session.acl, CONTAINER))


async def glanced(transport: Transport, session: Session, folder: str, deadline: float) -> Line:
    """Return the queue of a name, as the server's leader has it. A leader that was replaced and has
    not noticed it may return an old list. So a claim that is missing there may still exist.
    """
    sync = session.send(transport, Sync(folder))
    children = session.send(transport, GetChildren(folder, None))
    await session.settle(transport, sync, deadline)
    return await listed(transport, session, folder, children, deadline)


async def lined(transport: Transport, session: Session, folder: str, deadline: float) -> Line:
    """Return the queue of a name, not older than this call: a transaction precedes the list."""
    proof = Proof(transport, session, folder)
    children = session.send(transport, GetChildren(folder, None))
    await proof.settle(deadline)
    return await listed(transport, session, folder, children, deadline)


async def listed(
    transport: Transport, session: Session, folder: str, children: Reply, deadline: float
) -> Line:
    """Wait for a list of children and return it as a queue. If the sequences no longer give the
    order, read the transactions that created the nodes, and sort by them.
    """
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


async def remove(
    transport: Transport, mine: OwnClaim, deadline: float, *, foreign: bool = False
) -> bool:
    """Delete a claim's node; False if it was not there. `foreign`: also delete a node that belongs
    to another session. Otherwise it stays: another engine may have granted the claim.

    If the node's name is not known, list the queue first. The list is sent behind the claim on the
    same session, even if the connection was lost in between. A server that has not yet applied the
    claim cannot apply it any more once the session has moved to another connection. So a claim that
    the list does not contain cannot appear later.
    """
    session, folder = mine.session, mine.folder
    if mine.child is not None:
        names = [mine.child]
    else:
        line = await lined(transport, session, folder, deadline)
        names = [node.child for node in line.found(mine.id)]
        if not foreign:
            names = await _owned(transport, session, folder, names, deadline)
    replies = [session.send(transport, Delete(f"{folder}/{name}", -1)) for name in names]
    removed = False
    for reply in replies:
        try:
            await session.settle(transport, reply, deadline)
            removed = True
        except NoNodeError:
            continue
    return removed


async def _owned(
    transport: Transport, session: Session, folder: str, names: Sequence[str], deadline: float
) -> list[str]:
    """Return the nodes, of those in a folder, that belong to a session."""
    replies = [session.send(transport, Exists(f"{folder}/{name}", None)) for name in names]
    stats = [await session.settle(transport, reply, deadline) for reply in replies]
    return [
        name
        for name, stat in zip(names, stats, strict=True)
        if stat is not None and stat.ephemeralOwner == session.id
    ]
