"""The contract suite: hold an engine of your own to what lockfast needs of one.

Describe the engine in a `Bench`, give it to pytest as a fixture named `bench`, and subclass the
contracts. Every test runs in both colours::

    class MyBench(Bench):
        def open(self, runtime):
            return MyEngine(runtime.now)

        def wipe(self):
            ...

    @pytest.fixture(scope="module")
    def bench():
        return MyBench()

    class TestPort(PortContract): ...
    class TestClient(ClientContract): ...
"""

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
from lockfast.testing.contract.expiring import ExpiryContract, StepBackContract
from lockfast.testing.contract.inspecting import InspectContract
from lockfast.testing.contract.leasing import LeaseContract
from lockfast.testing.contract.losing import FaultContract, LossContract
from lockfast.testing.contract.naming import NamingContract
from lockfast.testing.contract.processes import ProcessContract
from lockfast.testing.contract.promising import GuaranteeContract
from lockfast.testing.contract.queueing import QueueContract, WakeContract
from lockfast.testing.contract.renewing import RenewContract
from lockfast.testing.contract.resigning import ListenContract, ResignContract
from lockfast.testing.contract.sharing import ClockContract, SharingContract
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
):
    """What the port promises of an engine that keeps no queue and lets one hold at a time."""


class PortContract(ExclusiveContract, QueueContract, WakeContract, SharingContract):
    """Everything that the port promises."""


class ClientContract(LeaseContract, LossContract, FaultContract, CrowdContract, GuaranteeContract):
    """Everything that a client promises in both colours; `BodyContract` is for asyncio alone."""


__all__ = [
    "COLOURS",
    "Actor",
    "Bench",
    "BodyContract",
    "ClaimContract",
    "ClientContract",
    "ClockContract",
    "Colour",
    "Contract",
    "CrowdContract",
    "ExclusiveContract",
    "ExpiryContract",
    "FaultContract",
    "GuaranteeContract",
    "InspectContract",
    "LeaseContract",
    "ListenContract",
    "LossContract",
    "MachineContract",
    "NamingContract",
    "PortContract",
    "ProcessContract",
    "QueueContract",
    "QueueMachine",
    "RenewContract",
    "ResignContract",
    "SharingContract",
    "Stage",
    "SteadyMachine",
    "StepBackContract",
    "StillMachine",
    "Tasked",
    "Threaded",
    "UrlBench",
    "WakeContract",
    "driven",
]
