"""What the engine knows of a claim, and how it counts what the nodes say of it."""

from __future__ import annotations

import random
from typing import Any, Protocol

import hiredis

from lockfast.core.ballot import Ballot, Verdict
from lockfast.engines.redis.messages import TOP, Malformed, number, octets, reading
from lockfast.engines.redis.transport import DEMOTED, Address, code, failure
from lockfast.engines.redlock import messages
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.port import Ask, Blocker, Standing

SLOWEST = 1.0  # seconds between two looks of a waiter
QUICKEST = 0.05
SHUFFLE = 0.02  # seconds over which those that stood in each other's way spread
PARTING = 0.1  # seconds for the rest to confirm a release that a majority has confirmed
ROUNDING = 0.002  # seconds by which a node's count of milliseconds may be off


class Attempt:
    """One claim's proposals: the number grows from one to the next, the id stays."""

    __slots__ = ("dead", "held", "open", "pause", "since", "token", "waiting")

    def __init__(self) -> None:
        """Begin unproposed."""
        self.token = 0
        self.since = 0
        """The first number: how long it has been waiting."""
        self.open = False
        """Whether the outcome of the last proposal is unknown: the same number is sent again."""
        self.held = self.waiting = self.dead = False
        self.pause = 0.0

    def packet(self, ask: Ask) -> bytes:
        """Pack the proposal."""
        shape = ask.shape
        form = messages.claim_form(shape.name, shape.ttl, shape.wait_ttl)
        return messages.claim(form, ask.id, self.token, self.since, ask.queue, ask.payload)


def attempt(ask: Ask) -> Attempt:
    """Return what is known of a claim; it is kept on the claim."""
    packed = ask.packed
    if not isinstance(packed, Attempt):
        packed = ask.packed = Attempt()
    return packed


class Tally(Protocol):
    """How the nodes' replies on one claim are counted."""

    @property
    def patience(self) -> float:
        """How many seconds more to wait for answers that could matter."""
        ...

    def hear(self, node: int, reply: Any, address: Address) -> None:
        """Count a reply, or an error in place of one."""


class Poll(Ballot):
    """The tally of a proposal."""

    __slots__ = ("_ttl", "blockers", "errors", "lacking", "missing")

    def __init__(self, nodes: int, ttl: float) -> None:
        """Begin with no answer."""
        super().__init__(nodes)
        self._ttl = ttl
        self.blockers: dict[str, Blocker] = {}
        self.errors: list[EngineError] = []
        self.lacking = False
        """Whether a node does not know the script: it has done nothing."""
        self.missing: dict[int, bytes] = {}
        """The mark that a stranger lacks."""

    def hear(self, node: int, reply: Any, address: Address) -> None:
        """Count a vote."""
        if reply == 1:
            self.lefts[node] = self._ttl
            return
        try:
            if type(reply) is list:
                with reading():
                    self._hear(node, reply)
                return
        except Malformed:  # a node that cannot be understood has not voted
            pass
        self.failed.add(node)
        self.lacking = self.lacking or lacks(reply)
        self.errors.append(problem(reply, address))

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
        elif what == b"stranger":
            self.missing[node] = octets(reply[1])
            self.strangers.add(node)
        else:
            raise Malformed("no vote")

    def refused(self, trial: Attempt, verdict: Verdict) -> Standing:
        """Say who is in the way, and when to look again.

        In steps that grow, never in step with others (trap 38), and soon after it may be free.
        """
        leader = self.leader()
        blocker = None if leader is None else self.blockers[leader]
        look = random.uniform(0.0, SHUFFLE)  # noqa: S311  # no secret
        if verdict is Verdict.TAKEN:
            trial.pause = min(max(trial.pause * 2, QUICKEST), SLOWEST)
            look = min(trial.pause * random.uniform(0.5, 1.0), self.free_in + look)  # noqa: S311  # no secret
        return Standing(
            ticket=trial.since,
            granted=False,
            left=0.0,  # no node keeps anything that would end
            ahead=1,
            floor=blocker.ticket if blocker else 0,
            blocker=blocker,
            recheck=look,
        )

    def unreachable(self) -> EngineError:
        """Say why there is no majority to ask; what refuses for good goes first."""
        for error in self.errors:
            if not isinstance(error, EngineUnavailable):
                return error
        reached = self.nodes - self.silent - len(self.failed)
        strange = f", {len(self.strangers)} of them no members" if self.strangers else ""
        why = f": {self.errors[0]}" if self.errors else ""
        return EngineUnavailable(
            f"{reached} of {self.nodes} Redis nodes answered{strange}, "
            f"{self.quorum} are needed{why}",
            sent=True,
        )


class Extension:
    """The tally of a renewal: held by a majority, or not any more."""

    __slots__ = ("_errors", "_heard", "_no", "_nodes", "_quorum", "_yes", "behind")

    def __init__(self, nodes: int) -> None:
        """Begin with no answer."""
        self._nodes = nodes
        self._quorum = nodes // 2 + 1
        self._heard = self._yes = self._no = self.behind = 0
        self._errors: list[EngineError] = []

    def hear(self, node: int, reply: Any, address: Address) -> None:  # noqa: ARG002  # the tally's
        """Count a reply: how many wait, or None where it is not held."""
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
        """Wait until it is known."""
        known = max(self._yes, self._no) >= self._quorum or self._heard == self._nodes
        return 0.0 if known else 1e9

    def standing(self, token: int, ttl: float) -> Standing | EngineError | None:
        """Say how it stands; None if no majority can have it."""
        if self._yes >= self._quorum:
            return granted(token, ttl, self.behind)
        if self._no > self._nodes - self._quorum:
            return None
        why = f": {self._errors[0]}" if self._errors else ""
        return EngineUnavailable(
            f"{self._yes} of {self._nodes} Redis nodes have renewed it, {self._quorum} are needed"
            + why,
            sent=True,
        )


class Departure:
    """The tally of a resignation: whether there was anything to give back."""

    __slots__ = ("_held", "_nodes", "_nothing", "_quorum", "_silent", "_waited")

    def __init__(self, nodes: int) -> None:
        """Begin with no answer."""
        self._nodes = self._silent = nodes
        self._quorum = nodes // 2 + 1
        self._held = self._waited = self._nothing = 0

    def hear(self, node: int, reply: Any, address: Address) -> None:  # noqa: ARG002  # the tally's
        """Count a reply."""
        self._silent -= 1
        if reply == 1:
            self._held += 1
        elif reply == 2:  # noqa: PLR2004  # see resign.lua
            self._waited += 1
        elif reply == 0:
            self._nothing += 1

    @property
    def patience(self) -> float:
        """Wait for a majority, and then not long for the rest: they have been written to."""
        if self._held >= self._quorum or not self._silent:
            return 0.0
        return PARTING if self.confirmed else 1e9

    @property
    def confirmed(self) -> bool:
        """Return whether a majority has answered."""
        return self._held + self._waited + self._nothing >= self._quorum

    @property
    def removed(self) -> bool:
        """Return whether it was there: held by a majority, as far as is known, or waiting."""
        unknown = self._nodes - self._waited - self._nothing - self._held
        held = self._held > 0 and self._held + unknown >= self._quorum
        return held or self._waited > 0


def granted(token: int, left: float, behind: int = 0) -> Standing:
    """Say that a majority has it, for so long."""
    return Standing(token, True, left - ROUNDING, 0, behind, token, None, None)  # noqa: FBT003  # hot


def lacks(reply: Any) -> bool:
    """Return whether a node does not know a script: it was told to forget them."""
    return isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT")


def demoted(reply: Any) -> bool:
    """Return whether a node has become a replica: its name may lead to another server now."""
    return isinstance(reply, hiredis.ReplyError) and code(reply) == DEMOTED


def problem(reply: Any, address: Address) -> EngineError:
    """Turn whatever came in place of a reply into our error."""
    if isinstance(reply, EngineError):
        return reply
    if isinstance(reply, hiredis.ReplyError):
        return failure(reply, address)
    return EngineUnavailable(f"Redis at {address}: {reply!r} is no answer", sent=True)
