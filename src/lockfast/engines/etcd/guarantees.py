"""The guarantees of a cluster, from what its live members report."""

from __future__ import annotations

import math
from collections.abc import Collection

from lockfast.engines.etcd.messages import MEMBERS, STATUS
from lockfast.engines.etcd.protobuf import fields, numbers, parts
from lockfast.engines.etcd.transport import Transport
from lockfast.errors import EngineError
from lockfast.guarantees import Finding, Guarantees, Level

MAJORITY = 3  # the smallest number of members of which one can fail
FIXED = (
    (
        {4: 31, 5: 13},
        "a leader that was cut off may revoke leases that its successor keeps",
    ),
    ({4: 38, 5: 23, 6: 5}, "the renewal of a lease that was revoked may succeed"),
    ({4: 42, 5: 28, 6: 9}, "a member that was paused may answer with old data"),
)
"""Bugs of leases: by minor version of etcd 3, the patch that has the fix, and the risk."""
LASTS = (
    "a grant survives the failure of any minority of the members, and tokens stay unique and in "
    "order; a holder that is paused beyond its ttl may write late, and only a guard rejects that"
)
ALONE = (
    "a crash keeps every grant, and the failure of a member stops all of them; tokens stay unique "
    "and in order, so a guarded resource is safe"
)


BUGGY = (
    "a grant survives the failure of a member, but a bug in the leases of this version of etcd may "
    "end it early; tokens stay unique and in order, so a guarded resource is safe"
)


async def ask(transport: Transport, deadline: float) -> Guarantees:
    """Ask for the list of members, and each member in the URL for its state. Return the
    guarantees that follow.
    """
    listed = parts(await transport.call(MEMBERS, b"", deadline), 2)
    voters = sum(1 for member in listed if not numbers(member).get(5, 0))
    versions: set[str] = set()
    findings: list[Finding] = []
    silent: list[str] = []
    for address in transport.addresses:
        try:
            reply = await transport.call_on(address, STATUS, b"", deadline)
        except EngineError:
            silent.append(address)
            continue
        versions.update(version.decode(errors="replace") for version in parts(reply, 2))
        findings += _alarms(reply)
    if voters < MAJORITY:
        findings.append(
            Finding(
                f"voting members = {voters}",
                "the failure of one of them stops every lock",
                "add members with `etcdctl member add` until there are three or five that vote",
            )
        )
    findings += [
        Finding(
            f"{address} does not answer",
            "etcd needs a majority of its members, and has one less",
            "start that member, or remove it from the cluster and from the URL",
        )
        for address in silent
    ]
    for version in sorted(versions, key=_numbers):
        findings += _bugs(version)
    if not transport.known:
        findings.append(
            Finding(
                "no user in the URL",
                "if etcd does not check users, every client can acquire and break locks",
                "run `etcdctl auth enable`, and connect with etcd://USER:PASSWORD@HOSTS",
            )
        )
    if transport.exposed:
        findings.append(
            Finding(
                "a password without TLS",
                "anyone on the network path can read it, and acquire and break locks",
                "start etcd with `--cert-file` and `--key-file`, and connect with etcds://",
            )
        )
    oldest = min(versions, key=_numbers, default="?")
    level, promise = promised(voters, versions)
    return Guarantees(
        f"etcd {oldest}, {voters} voting member{'' if voters == 1 else 's'}",
        level,
        promise,
        tuple(dict.fromkeys(findings)),
        best=Level.CONSENSUS,
    )


def promised(voters: int, versions: Collection[str]) -> tuple[Level, str]:
    """Return the level, and the promise in words. Consensus takes three voting members, all of a
    version that is known to keep its leases.
    """
    if voters < MAJORITY:
        return Level.FENCED, ALONE
    if not versions or any(not _known(each) or _bugs(each) for each in versions):
        return Level.FENCED, BUGGY
    return Level.CONSENSUS, LASTS


def _known(version: str) -> bool:
    """Return whether the bugs of a version are known: etcd 3, with a minor and a patch number."""
    numbered = _numbers(version)
    return len(numbered) == 3 and numbered[0] == 3  # noqa: PLR2004  # major, minor, patch of etcd 3


def _alarms(reply: bytes) -> list[Finding]:
    """Return a finding for each alarm of a member. With NOSPACE it refuses every claim."""
    return [
        Finding(
            f"alarm = {said.decode(errors='replace')}",
            "etcd rejects new requests for locks while the alarm lasts",
            "make room (`etcdctl compact`, `etcdctl defrag`), then `etcdctl alarm disarm`",
        )
        for field, said in fields(reply)
        if field == 8 and isinstance(said, bytes)  # noqa: PLR2004  # by field number: errors
    ]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(
        int(part)
        for part in version.split("-", maxsplit=1)[0].split(".")
        if part.isascii() and part.isdigit() and len(part) < 10  # noqa: PLR2004  # a number
    )


def _bugs(version: str) -> list[Finding]:
    """Return a finding for each bug of leases that a version has."""
    if not _known(version):
        return []
    _, minor, patch = _numbers(version)
    found = []
    for fixed, risk in FIXED:
        latest = max(fixed)
        if minor > latest or patch >= fixed.get(minor, math.inf):
            continue
        best = ", ".join(f"3.{each}.{fixed[each]}" for each in sorted(fixed))
        found.append(Finding(f"version = {version}", risk, f"upgrade to {best} or later"))
    return found
