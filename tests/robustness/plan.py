"""A plan: which faults happen when and for how long, singly and in pairs, drawn from a seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.robustness.faults import breaks
from tests.robustness.sites import Site

# Shares of the ttl: a fault that no lease notices, one about as long, one that outlives it.
LENGTHS = ((0.2, 0.7), (0.9, 1.3), (1.8, 2.5))
SHORTEST = 0.2
_QUIET = (0.1, 0.5)  # seconds between two steps: without some, nothing is acquired
_PAIRED = 0.6  # how likely an act has another beside it
# These end or start servers themselves. Two at once would only be one, muddled.
_RESTARTS = frozenset({"kill-server", "restart-empty"})
# These end or start replicas of the lock service. One must be left, or no lease can be kept.
_DEATHS = frozenset({"kill-replica", "drain-replica", "rolling-restart", "late-request"})
# Plays of several acts already, which need all servers in reach.
_ALONE = frozenset(
    {"demoted-primary", "deposed-leader", "kill-all", "move-slot", "shard-down", "stale-failover"}
)
# What no engine with a clock promises: tokens in order when the counter is lost and the clock
# reads less than it once did. So clocks move only after the last loss.
_CLOCKS = frozenset({"clock-ahead", "clock-server"})


@dataclass(frozen=True)
class Act:
    """One fault: when it begins in its step, how long it lasts, and the seed of its choices."""

    kind: str
    seconds: float
    after: float
    turn: int
    seed: int


@dataclass(frozen=True)
class Step:
    """One fault, or two that overlap; it begins when its time has come and the last has ended."""

    at: float
    acts: tuple[Act, ...]

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return max(act.after + act.seconds for act in self.acts)


@dataclass(frozen=True)
class Plan:
    """All faults of one run."""

    seed: int
    ttl: float
    steps: tuple[Step, ...]

    @property
    def seconds(self) -> float:
        """How long it lasts, if every fault begins and ends in time."""
        return self.steps[-1].at + self.steps[-1].seconds if self.steps else 0.0

    def counts(self) -> dict[str, int]:
        """Tell how many there are of each kind."""
        kinds = [act.kind for step in self.steps for act in step.acts]
        return {kind: kinds.count(kind) for kind in sorted(set(kinds))}

    @property
    def pairs(self) -> int:
        """How many steps are pairs."""
        return sum(len(step.acts) > 1 for step in self.steps)

    def __str__(self) -> str:
        """Print it, one step a line."""
        lines = [f"plan {self.seed}: {len(self.steps)} steps, {self.seconds:.1f} s"]
        for step in self.steps:
            acts = (f"{act.kind} +{act.after:.2f} for {act.seconds:.2f} s" for act in step.acts)
            lines.append(f"{step.at:7.2f}  {', '.join(acts)}")
        return "\n".join(lines)


def draw(  # noqa: PLR0913  # each says one thing about a plan
    seed: int,
    site: Site | type[Site],
    *,
    ttl: float,
    kinds: Sequence[str] | None = None,
    each: int = 1,
    seconds: float = 0.0,
    paired: float = _PAIRED,
) -> Plan:
    """Draw a plan with at least so many of each kind, and more until so many seconds are full.
    `paired`: how likely a fault has another one beside it.
    """
    rng = Random(seed)  # noqa: S311  # it must replay, not be secret
    turns = dict.fromkeys(sorted(site.kinds if kinds is None else kinds), 0)
    steps: list[Step] = []
    at = 0.0
    losing = [kind for kind in turns if kind not in _CLOCKS]
    careful = [kind for kind in turns if "data" not in breaks(kind, site)]
    # Two halves, when both are there: data is lost in the first, clocks move in the second.
    halves = [losing, careful] if _CLOCKS & turns.keys() and losing != careful else [list(turns)]
    for number, half in enumerate(halves, 1):
        wanted = {
            kind: each - turns[kind] if number == len(halves) or kind not in careful else each // 2
            for kind in half
        }
        pool = _shuffled(rng, [kind for kind in half for _ in range(wanted[kind])])
        owed = len(pool)
        while owed > 0 or at < seconds * number / len(halves):
            pool = pool or _shuffled(rng, half)
            step = _step(rng, at, pool, turns, ttl, paired)
            owed -= len(step.acts)
            steps.append(step)
            at += step.seconds + rng.uniform(*_QUIET)
    return Plan(seed, ttl, tuple(steps))


def _shuffled(rng: Random, kinds: list[str]) -> list[str]:
    return rng.sample(kinds, len(kinds))


def _step(  # noqa: PLR0913, PLR0917  # what is left of a plan, and how to take from it
    rng: Random, at: float, pool: list[str], turns: dict[str, int], ttl: float, paired: float
) -> Step:
    """Take one kind out of the pool, or two that go together."""
    first = _act(rng, pool.pop(), turns, ttl, 0.0)
    other = next((kind for kind in reversed(pool) if _together(first.kind, kind)), None)
    if other is None or rng.random() > paired:
        return Step(at, (first,))
    pool.remove(other)
    return Step(at, (first, _act(rng, other, turns, ttl, rng.uniform(0.0, first.seconds))))


def _together(one: str, other: str) -> bool:
    kinds = {one, other}
    muddled = kinds <= _RESTARTS or kinds <= _DEATHS
    return one != other and not kinds & _ALONE and not muddled


def _act(rng: Random, kind: str, turns: dict[str, int], ttl: float, after: float) -> Act:
    turn = turns[kind]
    turns[kind] += 1
    shortest, longest = LENGTHS[turn % len(LENGTHS)]
    seconds = max(SHORTEST, rng.uniform(shortest, longest) * ttl)
    return Act(kind, seconds, after, turn, rng.getrandbits(32))
