"""The rules of a storm. `Broken` is raised as soon as one is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from lockfast.aio import AsyncLease
from lockfast.claims.claim import Claim
from lockfast.claims.phases import HELD
from lockfast.port import CLIENT
from tests.robustness.simulation.storms.database import EPOCH, Member, Queues
from tests.robustness.simulation.storms.machine import Time
from tests.robustness.simulation.storms.plan import RACKS, TTL
from tests.robustness.simulation.world import Broken

if TYPE_CHECKING:
    from tests.robustness.simulation.storms.fleet import Client
    from tests.robustness.simulation.storms.gate import Process

INTERVAL = TTL / 3.0  # seconds between two renewals
MARGIN = 5.0  # seconds in which a client that can be served is served
GAP = 5.0  # seconds between two outages that are too short to serve everybody
MESSAGES = 4  # that wait at a replica for each client
PEAK = 3.0  # times the even rate, at which clients of a replica that has died connect
CHANCE = 10  # more clients, since a few fall together by chance
TASKS = 50  # of a replica. Each kind of request has up to 16 calls of the engine under way
GRACE = 6.0  # seconds after its timeout in which a waiter is granted or told


class Rules:
    """Sees what clients and database do."""

    def __init__(self, time: Time) -> None:
        self.seen: Counter[str] = Counter()
        """What happened how often."""
        self.clients: dict[str, Client] = {}
        """By the first digits of their ids."""
        self._time = time
        self._outages: list[list[tuple[float, float]]] = [[] for _ in range(RACKS)]
        """When no client of a rack could be served by anybody."""
        self._forgotten: set[str] = set()
        """Claims that the database has lost."""
        self._revived: set[str] = set()
        """Claims that were given back, and that a database that took over still has."""
        self._unknown: set[str] = set()
        """Claims in the database that their clients did not know when it was last looked."""
        self._holders: dict[str, str] = {}
        """To which claim the database gave a name last."""
        self._inside: dict[str, AsyncLease] = {}
        self._tokens: dict[str, int] = {}
        self._waiting: dict[Client, tuple[float, str]] = {}

    # --- the database -------------------------------------------------------------------------

    def granted(self, name: str, member: Member) -> None:
        """Check that nobody believes in a lease that the database now gives to another."""
        self.seen["grants"] += 1
        self._time.say("database", f"gives {name} away")
        before = self._holders.get(name)
        self._holders[name] = member.id
        if before is not None and before != member.id and before not in self._forgotten:
            claim = self._claim(before)
            if claim is not None and _valid(claim, self._time.now):
                raise Broken(f"{name} is given away, and its holder has it for {claim.until:.3f}")

    def forgets(self, old: Queues, new: Queues) -> None:
        """Note which claims a database that takes over does not have."""
        for id_, member in old.members.items():
            twin = new.members.get(id_)
            if twin is None or twin.granted != member.granted:
                self._forgotten.add(id_)
                self.seen["claims that the database lost"] += 1

        self._revived.update(new.members.keys() - old.members.keys())

    def orphans(self, queues: Queues) -> None:
        """Check that clients know what the database keeps for them."""
        before = self._unknown
        self._unknown = {
            member.id
            for member in queues.members.values()
            if member.granted
            and member.expires > EPOCH + self._time.now
            and self._claim(member.id) is None
        }
        orphans = sorted((self._unknown & before) - self._revived)
        if orphans:
            client = self.clients[orphans[0][:CLIENT]]
            raise Broken(f"the database keeps {len(orphans)} locks for nobody, one for {client}")

    def _claim(self, id_: str) -> Claim | None:
        client = self.clients.get(id_[:CLIENT])
        return None if client is None else client.session.table.get(id_)

    # --- the clients --------------------------------------------------------------------------

    def asks(self, client: Client, name: str, timeout: float) -> None:
        """Note that a client waits from now on."""
        self._waiting[client] = self._time.now + timeout + GRACE, name

    def told(self, client: Client) -> None:
        """Check that it was told in time."""
        until, name = self._waiting.pop(client)
        self._time.say(str(client), f"is told of {name}")
        if self._time.now > until:
            raise Broken(f"{client} was told of {name} {self._time.now - until:.3f} s too late")

    def enters(self, client: Client, lease: AsyncLease) -> None:
        """Check that nobody else is inside, and that tokens increase."""
        name, token, other = lease.name, lease.token, self._inside.get(lease.name)
        if token <= self._tokens.get(name, 0):
            raise Broken(f"{client} has {name} with {token}, after {self._tokens[name]}")
        if other is not None and _valid(other.claim, self._time.now):
            if other.id not in self._forgotten:
                raise Broken(f"{client} has {name}, which another one has")
            self.seen["two holders, as the database lost one"] += 1
        self._tokens[name] = token
        self._inside[name] = lease
        self.seen["entries"] += 1

    def leaves(self, lease: AsyncLease) -> None:
        """Note the end of a body."""
        if self._inside.get(lease.name) is lease:
            del self._inside[lease.name]

    def lost(self, client: Client, leases: Iterable[AsyncLease]) -> None:
        """Check that a lease was lost for a reason."""
        for lease in leases:
            self.leaves(lease)
            if lease.claim.loss is None:
                continue
            self.seen[f"lost: {lease.claim.loss.name.lower()}"] += 1
            self._time.say(str(client), f"lost {lease.name}: {lease.claim.why()}")
            if lease.id not in self._forgotten and not self.cut_off(client.rack, INTERVAL):
                raise Broken(f"{client} lost {lease.name} for no reason: {lease.claim.why()}")

    def outage(self, rack: int, seconds: float) -> None:
        """Note that nobody of a rack can be served from now on for some time."""
        began, now = self._outages[rack], self._time.now
        began.append((now, now + seconds))

    def cut_off(self, rack: int, interval: float) -> bool:
        """Return whether a client had no chance to renew a lease."""
        longest = 0.0
        first = last = -TTL
        for begins, ends in sorted(self._outages[rack]):
            if ends < self._time.now - TTL - GAP:
                continue
            if begins > last + GAP:
                first = begins
            last = max(last, ends)
            longest = max(longest, min(last, self._time.now) - first)
        return longest >= TTL - interval - MARGIN

    # --- the replicas -------------------------------------------------------------------------

    def waits(self, process: Process) -> None:
        """Check how much waits at a replica, which takes memory."""
        waiting = process.waiting
        most = MESSAGES * (len(process.replica.connections) + process.arrivals)
        if waiting > most:
            raise Broken(f"{waiting} messages wait at {process.machine.name}, more than {most}")
        if process.tasks > TASKS:
            raise Broken(f"{process.machine.name} has {process.tasks} tasks")

    def connected(self, began: int, arrived: Callable[[], Counter[int]], even: float) -> None:
        """Check that clients did not all come at once. `even`: how many come in each second if they
        are spread evenly.
        """
        seconds = arrived()
        peak = max(seconds[at] for at in range(began, began + int(TTL)))
        if peak > PEAK * even + CHANCE:
            raise Broken(f"{peak} clients connected in one second, where {even:.0f} would do")

    # --- the end ------------------------------------------------------------------------------

    def end(self) -> None:
        """Check that everybody is back, and that nobody waits for longer than they asked for."""
        for client, (until, name) in self._waiting.items():
            if until < self._time.now:
                raise Broken(f"{client} was told nothing of {name}")
        away = [client for client in self.clients.values() if not client.served]
        if away:
            raise Broken(f"{len(away)} clients are not back, the first is {away[0]}")


def _valid(claim: Claim, now: float) -> bool:
    return claim.phase is HELD and claim.loss is None and now < claim.until
