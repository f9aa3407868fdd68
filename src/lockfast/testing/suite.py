"""The names of the contract suite, in one place."""


# ruff: noqa: E402  # pytest rewrites the asserts of modules that are imported after it was told

import pytest

pytest.register_assert_rewrite(
    "lockfast.testing.contract",
    "lockfast.testing.machine",
    "lockfast.testing.programs",
    "lockfast.testing.stage",
    "lockfast.testing.twins",
)

from lockfast.testing.bench import Bench, UrlBench
from lockfast.testing.colour import COLOURS, Colour, Tasked, Threaded
from lockfast.testing.contract.bodies import BodyContract
from lockfast.testing.contract.claiming import ClaimContract
from lockfast.testing.contract.crowding import CrowdContract
from lockfast.testing.contract.deadlocking import DeadlockContract
from lockfast.testing.contract.decorating import DecoratorContract, LingerContract
from lockfast.testing.contract.deposing import DeposedContract
from lockfast.testing.contract.electing import CandidacyContract, ElectionContract
from lockfast.testing.contract.expiring import ExpiryContract, StepBackContract
from lockfast.testing.contract.inspecting import InspectContract
from lockfast.testing.contract.leasing import LeaseContract
from lockfast.testing.contract.losing import FaultContract, LossContract
from lockfast.testing.contract.mishaps import TogetherFaultContract, TogetherMismatchContract
from lockfast.testing.contract.naming import NamingContract
from lockfast.testing.contract.overseeing import OverviewContract
from lockfast.testing.contract.processes import ProcessContract
from lockfast.testing.contract.promising import GuaranteeContract
from lockfast.testing.contract.queueing import QueueContract, WakeContract
from lockfast.testing.contract.readers import ManyReadersContract
from lockfast.testing.contract.reading import (
    ContendedContract,
    ReadWriteContract,
    SemaphoreContract,
)
from lockfast.testing.contract.recording import RecordContract
from lockfast.testing.contract.reentering import ReentrantContract
from lockfast.testing.contract.renewing import RenewContract
from lockfast.testing.contract.resigning import ListenContract, ResignContract
from lockfast.testing.contract.sharing import ClockContract, SharingContract
from lockfast.testing.contract.together import TogetherContract
from lockfast.testing.machine import MachineContract, QueueMachine, SteadyMachine, StillMachine
from lockfast.testing.stage import Actor, Contract, Stage, driven


class ExclusiveContract(
    ClaimContract,
    RenewContract,
    ResignContract,
    ListenContract,
    ExpiryContract,
    InspectContract,
    NamingContract,
    RecordContract,
):
    """What the port promises of an engine that keeps no queue and lets one hold at a time."""


class PortContract(ExclusiveContract, QueueContract, WakeContract, SharingContract):
    """Everything that the port promises."""


class ClientContract(
    LeaseContract,
    LossContract,
    FaultContract,
    CrowdContract,
    GuaranteeContract,
    OverviewContract,
):
    """Everything that a client promises in both colours; `BodyContract` is for asyncio alone."""


class ShapeContract(
    TogetherContract,
    TogetherFaultContract,
    ReentrantContract,
    ElectionContract,
    CandidacyContract,
    DecoratorContract,
    LingerContract,
):
    """Every shape of lock that is made of plain locks: engines without a queue have them too."""


class QueueShapeContract(
    ReadWriteContract,
    SemaphoreContract,
    ContendedContract,
    DeadlockContract,
    TogetherMismatchContract,
):
    """Every shape of lock that needs a queue, or capacities."""


__all__ = [
    "COLOURS",
    "Actor",
    "Bench",
    "BodyContract",
    "CandidacyContract",
    "ClaimContract",
    "ClientContract",
    "ClockContract",
    "Colour",
    "ContendedContract",
    "Contract",
    "CrowdContract",
    "DeadlockContract",
    "DecoratorContract",
    "DeposedContract",
    "ElectionContract",
    "ExclusiveContract",
    "ExpiryContract",
    "FaultContract",
    "GuaranteeContract",
    "InspectContract",
    "LeaseContract",
    "LingerContract",
    "ListenContract",
    "LossContract",
    "MachineContract",
    "ManyReadersContract",
    "NamingContract",
    "OverviewContract",
    "PortContract",
    "ProcessContract",
    "QueueContract",
    "QueueMachine",
    "QueueShapeContract",
    "ReadWriteContract",
    "RecordContract",
    "ReentrantContract",
    "RenewContract",
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
    "TogetherContract",
    "TogetherFaultContract",
    "TogetherMismatchContract",
    "UrlBench",
    "WakeContract",
    "driven",
]
