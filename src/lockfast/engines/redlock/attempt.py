"""The tallies that count the nodes' replies about one claim."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Protocol

import hiredis

from lockfast.core.ballot import Ballot, Verdict
from lockfast.engines.redis.replies import TOP, Malformed, number, octets, other_format, reading
from lockfast.engines.redis.transport import DEMOTED, Address, code, failure
from lockfast.engines.redlock import messages
from lockfast.engines.redlock.trials import Trial
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.port import Blocker, Shape, Standing

SLOWEST = 1.0  # seconds between two proposals of a waiter, at most
QUICKEST = 0.05
SHUFFLE = 0.02  # seconds over which competing claims spread their next proposals
PARTING = 0.1  # seconds for the rest to confirm a release that a majority has confirmed
ROUNDING = 0.002  # seconds by which a node's count of milliseconds may be off


class Tally(Protocol):
    """Counts the nodes' replies about one claim."""

    @property
    def patience(self) -> float:
        """How many more seconds to wait for answers that could change the outcome."""
        ...

    def hear(self, node: int, reply: Any, address: Address) -> None:
        """Count a reply, or an error in place of one."""


class Poll(Ballot):
    """The tally of a proposal."""

    __slots__ = ("_name", "_ttl", "blockers", "dead", "errors", "lacking", "missing", "others")

    def __init__(self, nodes: int, shape: Shape) -> None:
        """Start without answers."""
        super().__init__(nodes)
        self._name, self._ttl = shape.name, shape.ttl
        self.blockers: dict[str, Blocker] = {}
        self.errors: list[EngineError] = []
        self.lacking = False
        """Whether a node lacks the script, and so has done nothing."""
        self.missing: dict[int, bytes] = {}
        """Nodes that are no members, and for each the key of a mark that it lacks."""
        self.others: dict[int, int] = {}
        """Nodes that have this claim with another number, and for each that number."""
        self.dead = False
        """Whether a node refuses the id, since the claim has been resigned."""

    def hear(self, node: int, reply: Any, address: Address) -> None:
        """Count a node's vote on the proposal, or an error in place of one."""
        if reply == 1:
            self.lefts[node] = self._ttl
            return
        try:
            if type(reply) is list:
                with reading():
                    self._hear(node, reply)
                return
        except Malformed:  # a reply that cannot be read is no vote
            pass
        self.failed.add(node)
        self.lacking = self.lacking or lacks(reply)
        self.errors.append(other_format(reply, self._name) or problem(reply, address))

    def _hear(self, node: int, reply: list[Any]) -> None:
        what = reply[0]
        if what == b"mine":
            self.lefts[node] = min(number(reply[1], -TOP) / 1000, self._ttl)
        elif what == b"mark":
            self.refuse(node, number(reply[1]))
        elif what == b"busy":
            holder, left = reply[3].decode(), max(number(reply[2], -TOP), 0) / 1000
            blocker = Blocker(holder, number(reply[4]), octets(reply[5]))
            self.busy(node, number(reply[1]), holder, left)
            self.blockers[holder] = blocker
        elif what == b"other":
            token = self.others[node] = number(reply[3])
            self.busy(node, number(reply[1]), str(token), max(number(reply[2], -TOP), 0) / 1000)
        elif what == b"dead":
            self.dead = True
            self.refuse(node, 0)
        elif what == b"stranger":
            self.missing[node] = octets(reply[1])
            self.strangers.add(node)
        else:
            raise Malformed("no vote")

    def refused(self, trial: Trial, verdict: Verdict) -> Standing:
        """Return the standing of a claim that did not win: who blocks it, and when to try again.

        The pauses grow up to a limit. They are random, so that waiters do not all try at the same
        moment (trap 38), and they end soon after the lock may be free.
        """
        leader = self.leader()
        blocker = None if leader is None else self.blockers.get(leader)
        look = random.uniform(0.0, SHUFFLE)  # noqa: S311  # no secret
        if verdict is Verdict.TAKEN:
            trial.pause = min(max(trial.pause * 2, QUICKEST), SLOWEST)
            look = min(trial.pause * random.uniform(0.5, 1.0), self.free_in + look)  # noqa: S311  # no secret
        return Standing(
            ticket=trial.since,
            granted=False,
            left=0.0,  # nodes keep nothing of a waiter that it could lose
            ahead=1,
            floor=blocker.ticket if blocker else 0,
            blocker=blocker,
            recheck=look,
        )

    @property
    def elsewhere(self) -> int:
        """Return the number with which a majority has this claim, or 0."""
        counts = Counter(self.others.values())
        token, most = counts.most_common(1)[0] if counts else (0, 0)
        return token if most >= self.quorum else 0

    def unreachable(self) -> EngineError:
        """Return the error why no majority answered. A node's refusal is preferred."""
        for error in self.errors:
            if not isinstance(error, EngineUnavailable):
                return error
        reached = self.nodes - self.silent - len(self.failed)
        strange = f", {len(self.strangers)} of them not members" if self.strangers else ""
        why = f": {self.errors[0].message}" if self.errors else ""
        return EngineUnavailable(
            f"{reached} of {self.nodes} Redis nodes answered{strange}, "
            f"{self.quorum} are needed{why}",
            sent=True,
        )


class Extension:
    """The tally of a renewal: whether a majority still holds the lock for the claim."""

    __slots__ = ("_errors", "_heard", "_no", "_nodes", "_quorum", "_yes", "behind")

    def __init__(self, nodes: int) -> None:
        """Start without answers."""
        self._nodes = nodes
        self._quorum = nodes // 2 + 1
        self._heard = self._yes = self._no = self.behind = 0
        self._errors: list[EngineError] = []

    def hear(self, node: int, reply: Any, address: Address) -> None:  # noqa: ARG002  # the tally's
        """Count a reply: the number of waiters, or None if the claim does not hold there."""
        self._heard += 1
        if reply is None:
            self._no += 1
        elif type(reply) is int and 0 <= reply < TOP:
            self._yes += 1
            self.behind = max(self.behind, reply)
        else:
            self._errors.append(problem(reply, address))

    @property
    def patience(self) -> float:
        """Wait until a majority says the same, or all have answered."""
        known = max(self._yes, self._no) >= self._quorum or self._heard == self._nodes
        return 0.0 if known else 1e9

    def standing(self, token: int, ttl: float) -> Standing | EngineError | None:
        """Return the standing, None if no majority can hold it, or an error if that is unknown."""
        if self._yes >= self._quorum:
            return granted(token, ttl, self.behind)
        if self._no > self._nodes - self._quorum:
            return None
        why = f": {self._errors[0].message}" if self._errors else ""
        return EngineUnavailable(
            f"{self._yes} of {self._nodes} Redis nodes renewed the lease, {self._quorum} are needed"
            + why,
            sent=True,
        )


class Departure:
    """The tally of a resignation: whether the claim held the lock or waited for it."""

    __slots__ = ("_errors", "_held", "_nodes", "_nothing", "_quorum", "_silent", "_waited")

    def __init__(self, nodes: int) -> None:
        """Start without answers."""
        self._nodes = self._silent = nodes
        self._quorum = nodes // 2 + 1
        self._held = self._waited = self._nothing = 0
        self._errors: list[EngineError] = []

    def hear(self, node: int, reply: Any, address: Address) -> None:  # noqa: ARG002  # the tally's
        """Count a reply, or an error in place of one."""
        self._silent -= 1
        if reply == 1:
            self._held += 1
        elif reply == 2:  # noqa: PLR2004  # see resign.lua
            self._waited += 1
        elif reply == 0:
            self._nothing += 1
        else:
            self._errors.append(problem(reply, address))

    @property
    def patience(self) -> float:
        """Wait for a majority, and then only PARTING for the rest, which have been sent it too."""
        if self._held >= self._quorum or not self._silent:
            return 0.0
        hopeless = len(self._errors) > self._nodes - self._quorum
        return PARTING if self.confirmed or hopeless else 1e9

    @property
    def confirmed(self) -> bool:
        """Return whether a majority has answered."""
        return self._held + self._waited + self._nothing >= self._quorum

    def unconfirmed(self) -> EngineError:
        """Return the error why no majority has confirmed the release. It is a node's refusal if so
        many nodes refuse that another attempt would fail too.
        """
        refusals = [each for each in self._errors if not isinstance(each, EngineUnavailable)]
        if len(refusals) > self._nodes - self._quorum:
            return refusals[0]
        why = f": {self._errors[0].message}" if self._errors else ""
        return EngineUnavailable(
            f"fewer than {self._quorum} of {self._nodes} Redis nodes confirmed the release{why}",
            sent=True,
        )

    @property
    def removed(self) -> bool:
        """Return whether the claim was there: it waited, or a majority may have held it."""
        unknown = self._nodes - self._waited - self._nothing - self._held
        held = self._held > 0 and self._held + unknown >= self._quorum
        return held or self._waited > 0


def granted(token: int, left: float, behind: int = 0) -> Standing:
    """Return the standing of a claim that a majority holds for `left` seconds."""
    return Standing(token, True, left - ROUNDING, 0, behind, token, None, None)  # noqa: FBT003  # hot


def lacks(reply: Any) -> bool:
    """Return whether a reply says that the node lacks a script, as after SCRIPT FLUSH."""
    return isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT")


def demoted(reply: Any) -> bool:
    """Return whether a reply says that the node is now a replica. Its name may lead elsewhere."""
    return isinstance(reply, hiredis.ReplyError) and code(reply) == DEMOTED


def problem(reply: Any, address: Address) -> EngineError:
    """Return lockfast's error for whatever came in place of a reply."""
    if isinstance(reply, EngineError):
        return reply
    if isinstance(reply, hiredis.ReplyError):
        return failure(reply, address, messages.RIGHTS)
    return EngineUnavailable(f"Redis at {address}: the reply cannot be read: {reply!r}", sent=True)
