"""Tools for tests of programs that use lockfast, and of engines of your own.

Programs are tested with a memory engine on a clock that the test moves: see `lockfast.testing.lab`.

The contracts test whether an engine of your own does what lockfast needs. Describe the engine in a
`Bench`, return it from a pytest fixture named `bench`, and subclass the contracts. Every test runs
twice, with threads and with asyncio::

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
    class TestShapes(ShapeContract): ...
    class TestQueueShapes(QueueShapeContract): ...
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockfast.testing.contract.suite import *  # noqa: F403  # its names are listed there
else:

    def __getattr__(name: str) -> object:
        """Import the contract suite, with pytest and Hypothesis, when one of its names is used.

        It is not imported earlier, because every run of pytest imports this package for the plugin.
        """
        if name[0].isupper() or name == "driven":  # all names of the suite are of this form
            return getattr(import_module("lockfast.testing.contract.suite"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
