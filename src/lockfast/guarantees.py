"""What an engine promises as it runs now: a level, a sentence, and what to change in its setup."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class Level(IntEnum):
    """How much of a promise survives. Each level includes the ones below it."""

    EFFICIENCY = 1
    """Duplicate work is possible, and tokens alone may not tell."""
    FENCED = 2
    """A fault may forget a grant, but tokens stay unique and in order through it while clocks
    agree: a guarded resource is safe."""
    CONSENSUS = 3
    """The grant itself survives the failure of any minority of servers."""

    @classmethod
    def of(cls, said: Level | str) -> Level:
        """Read a level as a user writes it: `"fenced"`."""
        if isinstance(said, Level):
            return said
        try:
            return cls[said.upper()]
        except KeyError:
            known = ", ".join(repr(level.name.lower()) for level in cls)
            raise ValueError(f"no level {said!r}: there are {known}") from None


class Finding(NamedTuple):
    """Something in the server's setup that weakens a promise."""

    setting: str
    """What was found, as `name = value`."""
    risk: str
    """What can happen because of it."""
    remedy: str
    """What to change, so that it can be typed."""

    def __str__(self) -> str:
        """Say it in one line."""
        return f"{self.setting}: {self.risk}. {self.remedy}"


@dataclass(frozen=True, slots=True)
class Guarantees:
    """What was found by asking the live server. It holds for the setup as it was then."""

    engine: str
    """Which server in which topology, with its version: `Redis 7.0.15, standalone`."""
    level: Level
    promise: str
    """What holds through which fault, and what does not: a clause to follow a colon."""
    findings: tuple[Finding, ...] = ()
    best: Level = Level.FENCED
    """The highest level that this kind of engine reaches, whatever its setup."""

    def lacks(self, required: Level) -> str:
        """Say what to do about a level that is required and not reached."""
        level = required.name.lower()
        if self.best < required:
            return (
                f"No setting of this engine gives {level}: use etcd or ZooKeeper with at least "
                f"three servers, or require {self.best.name.lower()}."
            )
        weak = "; ".join(map(str, self.findings))
        return f"{weak + '. ' if weak else ''}Change the server's setup, or require less."

    @property
    def sentence(self) -> str:
        """Say all that matters in one sentence."""
        return f"{self.engine}, gives {self.level.name.lower()}: {self.promise}."

    def __str__(self) -> str:
        """Return the sentence, and the findings below it."""
        return "\n".join([self.sentence, *(f"- {finding}" for finding in self.findings)])
