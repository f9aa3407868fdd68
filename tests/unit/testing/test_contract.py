"""No part of the contract is forgotten: each belongs to a suite that engines subclass."""

from __future__ import annotations

import ast
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

import lockfast.testing
from lockfast.testing import contract
from lockfast.testing.contract import suite

CONTRACT = Path(__file__).parents[2] / "contract"
QUEUEING = ["memory", "redis", "postgres", "mysql", "etcd", "zookeeper"]
SUITES = ["ClientContract", "ShapeContract", "BodyContract"]  # what every engine subclasses


def parts() -> set[type]:
    """Find every class of the contract, in whichever module it is."""
    modules = [
        import_module(found.name)
        for found in pkgutil.walk_packages(contract.__path__, f"{contract.__name__}.")
    ]
    return {
        thing
        for module in modules
        for name, thing in vars(module).items()
        if name.endswith("Contract")
        and isinstance(thing, type)
        and thing.__module__.startswith(contract.__name__)
    }


def subclassed(path: Path) -> set[type]:
    """Find what the test classes of a file inherit, near and far. The file is not imported."""
    bases = {
        base.id
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test")
        for base in node.bases
        if isinstance(base, ast.Name) and base.id in suite.__all__
    }
    return {each for base in bases for each in getattr(lockfast.testing, base).__mro__}


def names(found: set[type]) -> list[str]:
    return sorted(each.__name__ for each in found)


def test_every_part_of_the_contract_is_one_that_an_engine_subclasses() -> None:
    reached = set[type]().union(*(subclassed(path) for path in CONTRACT.glob("test_*.py")))
    assert len(parts()) > 30
    assert names(parts() - reached) == []


def test_every_part_of_the_contract_is_offered_to_other_packages() -> None:
    assert [name for name in names(parts()) if name not in suite.__all__] == []


@pytest.mark.parametrize("engine", [*QUEUEING, "redlock"])
def test_an_engine_subclasses_every_part_about_the_client(engine: str) -> None:
    wanted = [*SUITES, "QueueShapeContract"] if engine in QUEUEING else SUITES
    found = subclassed(CONTRACT / f"test_{engine}.py")
    assert [name for name in wanted if getattr(suite, name) not in found] == []


def test_an_engine_of_another_package_subclasses_every_part_about_the_client() -> None:
    found = subclassed(CONTRACT / "package" / "contract.py")
    wanted = [*SUITES, "QueueShapeContract", "PortContract"]
    assert [name for name in wanted if getattr(suite, name) not in found] == []


def test_the_suites_have_every_part_about_the_client_but_those_that_need_processes() -> None:
    wanted = {each for each in parts() if ".contract.client." in each.__module__}
    suites = [getattr(suite, name) for name in (*SUITES, "QueueShapeContract")]
    missing = wanted - {each for one in suites for each in one.__mro__}
    # Processes need an engine that they can share, and 500 readers one that is quick.
    assert names(missing) == ["DeposedContract", "ManyReadersContract", "ProcessContract"]
