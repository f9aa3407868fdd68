"""Faults: each kind is a small noun that begins, says what it did, and can be undone."""

from tests.robustness.faults.clock import ClockAhead, ClockClient, ClockServer
from tests.robustness.faults.cut import CutClient, CutLeader, CutMinority, CutOneWay, Loss
from tests.robustness.faults.demoted import DemotedPrimary
from tests.robustness.faults.deposed import DeposedLeader
from tests.robustness.faults.disk import SlowFsync
from tests.robustness.faults.failover import StaleFailover
from tests.robustness.faults.fault import Damage, Fault, Stage
from tests.robustness.faults.forgotten import IdleDied, NatForgets
from tests.robustness.faults.kill import KillClient, KillServer, RestartEmpty
from tests.robustness.faults.late import Duplicate, LateRequest
from tests.robustness.faults.outage import KillAll
from tests.robustness.faults.pause import PauseClient, PauseServer
from tests.robustness.faults.replica import CutReplica, DrainReplica, KillReplica, PauseReplica
from tests.robustness.faults.replies import Delay, LoseReply
from tests.robustness.faults.reshard import MoveSlot
from tests.robustness.faults.rolling import RollingRestart
from tests.robustness.faults.shard import ShardDown
from tests.robustness.faults.signals import SignalStorm
from tests.robustness.sites import Site

FAULTS: dict[str, Fault] = {
    fault.kind: fault
    for fault in (
        PauseClient(),
        PauseServer(),
        KillClient(),
        KillServer(),
        RestartEmpty(),
        CutLeader(),
        CutClient(),
        CutOneWay(),
        Loss(),
        LoseReply(),
        Delay(),
        CutMinority(),
        LateRequest(),
        Duplicate(),
        ClockServer(),
        ClockClient(),
        SlowFsync(),
        StaleFailover(),
        MoveSlot(),
        DeposedLeader(),
        NatForgets(),
        IdleDied(),
        ShardDown(),
        DemotedPrimary(),
        ClockAhead(),
        SignalStorm(),
        KillAll(),
        KillReplica(),
        PauseReplica(),
        CutReplica(),
        DrainReplica(),
        RollingRestart(),
    )
}


def breaks(kind: str, site: Site | type[Site]) -> frozenset[str]:
    """Tell what a kind of fault may break at a site: "pause", "clock", "data"."""
    lost = frozenset({"data"}) if kind in site.loses else frozenset[str]()
    return FAULTS[kind].breaks | lost


__all__ = ["FAULTS", "Damage", "Fault", "Stage", "breaks"]
