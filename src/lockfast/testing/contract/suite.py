"""The contract suite: collects all contracts, and groups them into those to subclass."""


# ruff: noqa: E402  # pytest rewrites asserts only in modules that are imported after this call

import pytest

pytest.register_assert_rewrite(
    "lockfast.testing.contract.client",
    "lockfast.testing.contract.port",
    "lockfast.testing.harness.replica_machine",
    "lockfast.testing.harness.state_machine",
    "lockfast.testing.harness.programs",
    "lockfast.testing.harness.stage",
    "lockfast.testing.harness.twins",
)

from lockfast.testing.contract.client.aio_body import BodyContract
from lockfast.testing.contract.client.at_most import AtMostContract
from lockfast.testing.contract.client.blocked_loop import (
    BlockedLoopContract,
    BlockedSharedContract,
)
from lockfast.testing.contract.client.bodies import WithContract
from lockfast.testing.contract.client.callbacks import CallbackContract
from lockfast.testing.contract.client.crowd import CrowdContract
from lockfast.testing.contract.client.deadlock import DeadlockContract
from lockfast.testing.contract.client.decorator import DecoratorContract, LingerContract
from lockfast.testing.contract.client.dropped import DroppedContract
from lockfast.testing.contract.client.election import CandidacyContract, ElectionContract
from lockfast.testing.contract.client.guarantees import GuaranteeContract
from lockfast.testing.contract.client.inspection import OverviewContract, RemovedWaiterContract
from lockfast.testing.contract.client.leader_processes import DeposedContract
from lockfast.testing.contract.client.lease import LeaseContract
from lockfast.testing.contract.client.lock_all import TogetherContract
from lockfast.testing.contract.client.lock_all_faults import (
    TogetherFaultContract,
    TogetherMismatchContract,
)
from lockfast.testing.contract.client.loss import FaultContract, LossContract
from lockfast.testing.contract.client.many_readers import ManyReadersContract
from lockfast.testing.contract.client.parting import PartingContract
from lockfast.testing.contract.client.patience import PatienceContract, QueuePatienceContract
from lockfast.testing.contract.client.processes import ProcessContract
from lockfast.testing.contract.client.renewal import RenewalContract
from lockfast.testing.contract.client.rlock import ReentrantContract
from lockfast.testing.contract.client.shared_locks import (
    ContendedContract,
    ReadWriteContract,
    SemaphoreContract,
)
from lockfast.testing.contract.client.whose_lease import OwnershipContract
from lockfast.testing.contract.port.break_records import RecordContract
from lockfast.testing.contract.port.capacity import ClockContract, SharingContract
from lockfast.testing.contract.port.claim import ClaimContract
from lockfast.testing.contract.port.departures import DepartureContract, DepartureQueueContract
from lockfast.testing.contract.port.expiry import ExpiryContract, StepBackContract
from lockfast.testing.contract.port.inspect import InspectContract
from lockfast.testing.contract.port.names import NamingContract
from lockfast.testing.contract.port.queue import QueueContract, WakeContract
from lockfast.testing.contract.port.renew import RenewContract
from lockfast.testing.contract.port.replicas import ReplicaContract, ReplicaQueueContract
from lockfast.testing.contract.port.resign import ListenContract, ResignContract
from lockfast.testing.contract.port.server_time import FixedTimeContract, TimeContract
from lockfast.testing.harness.bench import Bench, UrlBench
from lockfast.testing.harness.mode import MODES, Mode, Tasked, Threaded
from lockfast.testing.harness.replica_machine import (
    ReplicaMachine,
    ReplicaMachineContract,
)
from lockfast.testing.harness.stage import Actor, Contract, Stage, driven
from lockfast.testing.harness.state_machine import (
    MachineContract,
    QueueMachine,
    SteadyMachine,
    StillMachine,
)


class ExclusiveContract(
    ClaimContract,
    RenewContract,
    ResignContract,
    ListenContract,
    ExpiryContract,
    InspectContract,
    NamingContract,
    RecordContract,
    TimeContract,
):
    """The port's tests for an engine without queues, where one claim at a time holds a name."""


class PortContract(ExclusiveContract, QueueContract, WakeContract, SharingContract):
    """The tests of the port for an engine with queues. Further tests of the port are in
    `ReplicaContract`, `ReplicaQueueContract`, `DepartureContract`, `DepartureQueueContract`,
    `ClockContract` and `FixedTimeContract`.
    """


class ClientContract(
    LeaseContract,
    OwnershipContract,
    WithContract,
    PatienceContract,
    RenewalContract,
    BlockedLoopContract,
    LossContract,
    FaultContract,
    CallbackContract,
    DroppedContract,
    PartingContract,
    CrowdContract,
    GuaranteeContract,
    OverviewContract,
):
    """The tests of plain locks of a client, in both modes. `BodyContract` is for asyncio alone."""


class ShapeContract(
    TogetherContract,
    TogetherFaultContract,
    ReentrantContract,
    ElectionContract,
    CandidacyContract,
    DecoratorContract,
    LingerContract,
    AtMostContract,
):
    """The tests of all kinds of locks that are made of plain locks, and so need no queue."""


class QueueShapeContract(
    QueuePatienceContract,
    ReadWriteContract,
    SemaphoreContract,
    BlockedSharedContract,
    ContendedContract,
    DeadlockContract,
    TogetherMismatchContract,
    RemovedWaiterContract,
):
    """The tests of all kinds of locks that need a queue or a capacity above 1."""


__all__ = [
    "MODES",
    "Actor",
    "AtMostContract",
    "Bench",
    "BlockedLoopContract",
    "BlockedSharedContract",
    "BodyContract",
    "CallbackContract",
    "CandidacyContract",
    "ClaimContract",
    "ClientContract",
    "ClockContract",
    "ContendedContract",
    "Contract",
    "CrowdContract",
    "DeadlockContract",
    "DecoratorContract",
    "DepartureContract",
    "DepartureQueueContract",
    "DeposedContract",
    "DroppedContract",
    "ElectionContract",
    "ExclusiveContract",
    "ExpiryContract",
    "FaultContract",
    "FixedTimeContract",
    "GuaranteeContract",
    "InspectContract",
    "LeaseContract",
    "LingerContract",
    "ListenContract",
    "LossContract",
    "MachineContract",
    "ManyReadersContract",
    "Mode",
    "NamingContract",
    "OverviewContract",
    "OwnershipContract",
    "PartingContract",
    "PatienceContract",
    "PortContract",
    "ProcessContract",
    "QueueContract",
    "QueueMachine",
    "QueuePatienceContract",
    "QueueShapeContract",
    "ReadWriteContract",
    "RecordContract",
    "ReentrantContract",
    "RemovedWaiterContract",
    "RenewContract",
    "RenewalContract",
    "ReplicaContract",
    "ReplicaMachine",
    "ReplicaMachineContract",
    "ReplicaQueueContract",
    "ResignContract",
    "SemaphoreContract",
    "ShapeContract",
    "SharingContract",
    "Stage",
    "SteadyMachine",
    "StepBackContract",
    "StillMachine",
    "Tasked",
    "Threaded",
    "TimeContract",
    "TogetherContract",
    "TogetherFaultContract",
    "TogetherMismatchContract",
    "UrlBench",
    "WakeContract",
    "WithContract",
    "driven",
]
