"""What a subject may do: which verbs on which names, and within which limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from lockfast.errors import EngineRefused
from lockfast.plain import plain

CLAIM, INSPECT, BREAK = "claim", "inspect", "break"
VERBS = (CLAIM, INSPECT, BREAK)
SHOWN = 3  # prefixes that a refusal names
NOTHING: Mapping[str, tuple[str, ...]] = {}


class Denied(EngineRefused):
    """A request that its subject may not make."""

    verb = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a subject may use of one replica. None: as much as it likes."""

    max_ttl: float | None = None
    """Seconds."""
    max_claims: int | None = None
    """Locks that it holds or waits for at the same time."""
    max_waiters: int | None = None
    """Locks that it waits for at the same time."""
    max_connections: int | None = None
    max_requests: int | None = None
    """Requests in a second. Each claim of a request counts as one."""
    max_bytes: int | None = None
    """Bytes of requests in a second."""


LIMITS = tuple(each.name for each in fields(Limits))


class Rights:
    """What one subject may do. Everything that it does not name is denied."""

    __slots__ = ("_prefixes", "limits", "subject")

    def __init__(
        self,
        subject: str,
        prefixes: Mapping[str, tuple[str, ...]] = NOTHING,
        limits: Limits | None = None,
    ) -> None:
        """Take the prefixes of the names, by verb."""
        self.subject = subject
        """The name of the table in the configuration."""
        self.limits = limits or Limits()
        self._prefixes = {verb: prefixes.get(verb, ()) for verb in VERBS}

    def may(self, verb: str, name: str) -> bool:
        """Return whether the subject may do this to a lock."""
        return name.startswith(self._prefixes[verb])

    def may_any(self, name: str) -> bool:
        """Return whether the subject may do anything to a lock."""
        return any(name.startswith(prefixes) for prefixes in self._prefixes.values())

    def require(self, verb: str, name: str, *, exact: bool = True) -> None:
        """Raise `Denied` unless the subject may do this to a lock.

        `exact`: False if `name` is a prefix. Then the subject must have a right to all names that
        begin with it, because a part of the list could be taken for all of it.
        """
        if not self.may(verb, name):
            raise self._denied(verb, name, exact=exact)

    def _denied(self, verb: str, name: str, *, exact: bool) -> Denied:
        prefixed = f"the locks whose names begin with {name!r}" if name else "all locks"
        what = f"the lock {name!r}" if exact else prefixed
        prefix = "a prefix of the name" if name else '""'
        allowed = self._prefixes[verb]
        has = ", ".join(map(repr, allowed[:SHOWN])) + (", ..." if len(allowed) > SHOWN else "")
        only = f"only names that begin with {has}" if allowed else "no locks"
        error = Denied(
            plain(
                f"{self.subject!r} may not {verb} {what}, but {only}. To allow it, add {prefix} to "
                f"`{verb}` of [subjects.{self.subject}] in the configuration of the "
                "service, and send HUP to each replica"
            )
        )
        error.verb = verb
        return error
