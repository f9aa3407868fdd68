"""Partitions and losses: packets that do not arrive."""

from tests.robustness.faults.fault import Damage, Fault, Order, Stage, chosen, told
from tests.robustness.hosts import host_of
from tests.servers.process import Server

_SHARES = (0.05, 0.2, 0.4)


class CutLeader(Fault):
    """The leader is cut off: from everybody, or from the other servers and not from clients."""

    kind = "cut-leader"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Cut it off."""
        return _isolate(chosen(order.rng, [stage.site.leader()]), stage, order)


class CutMinority(Fault):
    """One that does not lead is cut off: from everybody, or from the other servers alone."""

    kind = "cut-minority"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Cut it off."""
        return _isolate(chosen(order.rng, stage.site.followers()), stage, order)


class CutClient(Fault):
    """A client is cut off from the site: wholly, or only there, and its resource in reach."""

    kind = "cut-client"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Cut it off."""
        worker = chosen(order.rng, stage.workers)
        if order.turn % 2 == 0:
            undo = host_of(worker).cut(*stage.site.entrances)
            return Damage(f"cut {told(worker)} off from the site", undo)
        return Damage(f"cut {told(worker)} off", host_of(worker).cut())


class CutOneWay(Fault):
    """Packets pass one way only: requests are carried out unanswered, or never arrive."""

    kind = "cut-one-way"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Cut a server or a client off, one way, all four in turn."""
        incoming, client = order.turn % 2 == 0, order.turn % 4 >= 2
        victim = chosen(order.rng, stage.workers if client else [stage.site.leader()])
        undo = host_of(victim).cut(incoming=incoming, outgoing=not incoming)
        way = "to" if incoming else "from"
        return Damage(f"cut the way {way} {told(victim)}", undo)


class Loss(Fault):
    """Some packets are lost, and sent again by TCP: a slow network, seldom a broken one."""

    kind = "loss"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Lose a share of the packets of one host."""
        share = _SHARES[order.turn % len(_SHARES)]
        site = stage.site
        victim = chosen(order.rng, [*stage.workers, *site.servers, *site.service])
        return Damage(f"lose {share:.0%} of {told(victim)}", host_of(victim).lossy(share))


def _isolate(server: Server, stage: Stage, order: Order) -> Damage:
    others = [host_of(each) for each in stage.site.peers(server)]
    if others and order.turn % 2 == 0:
        # Its clients stay, and hear from one that does not know that the others have gone on.
        undo = host_of(server).cut(*others)
        return Damage(f"cut {told(server)} off from the other servers", undo)
    return Damage(f"cut {told(server)} off", host_of(server).cut())
