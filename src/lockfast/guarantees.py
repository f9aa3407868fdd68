"""The guarantees of an engine in its present setup: a level, a description, and findings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class Level(IntEnum):
    """What an engine guarantees when servers fail. Each level includes the ones below it."""

    EFFICIENCY = 1
    """Two processes may do the same work, and their tokens may not show which one is stale."""
    FENCED = 2
    """A fault can make the engine forget a grant, but tokens stay unique and increasing as long as
    the servers' clocks agree. A guarded resource is therefore safe."""
    CONSENSUS = 3
    """The engine keeps every grant if any minority of its servers fails."""

    @classmethod
    def of(cls, said: Level | str) -> Level:
        """Return the level for a name such as `"fenced"`.

        Args:
            said: The name of a level, or the level itself.

        Returns:
            The level.

        Raises:
            ValueError: There is no such level.
        """
        if isinstance(said, Level):
            return said
        try:
            return cls[said.upper()]
        except KeyError:
            known = ", ".join(repr(level.name.lower()) for level in cls)
            raise ValueError(f"there is no level {said!r}. The levels are {known}.") from None


class Finding(NamedTuple):
    """A setting of the server that weakens a guarantee."""

    setting: str
    """The setting and its value, as `name = value`."""
    risk: str
    """What can happen because of it."""
    remedy: str
    """What to change, as a command or setting that can be copied."""

    def __str__(self) -> str:
        """Return the finding as one line."""
        return f"{self.setting}: {self.risk}. {self.remedy}"


@dataclass(frozen=True, slots=True)
class Guarantees:
    """What the engine guarantees, read from the live server: its setup at that time."""

    engine: str
    """The server, its version and its topology: `Redis 7.0.15, standalone`."""
    level: Level
    promise: str
    """Which faults the guarantees survive and which not. `sentence` shows it after a colon."""
    findings: tuple[Finding, ...] = ()
    best: Level = Level.FENCED
    """The highest level that this kind of engine can reach in any setup."""

    def lacks(self, required: Level) -> str:
        """Return advice on how to reach a required level that this setup does not reach.

        Args:
            required: The level that is required.

        Returns:
            One or more sentences. `GuaranteeMissing` contains them.
        """
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
        """The engine, its level and what it promises, in one sentence."""
        return f"{self.subject} gives {self.level.name.lower()}: {self.promise}."

    @property
    def subject(self) -> str:
        """The engine as the subject of a sentence: `Redis 7.0.15, standalone,`."""
        return f"{self.engine}," if ", " in self.engine else self.engine

    def __str__(self) -> str:
        """Return the sentence, followed by one line for each finding."""
        return "\n".join([self.sentence, *(f"- {finding}" for finding in self.findings)])
