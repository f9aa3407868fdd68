"""For tests: of programs that use lockfast, and of engines that lockfast is to use.

A program's tests get a memory engine on a clock that they move: see `lockfast.testing.lab`.

An engine of your own is held to what lockfast needs of one. Describe it in a `Bench`, give it to
pytest as a fixture named `bench`, and subclass the contracts. Every test runs in both modes::

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
        """Load the suite, with pytest and Hypothesis, only for those who want it: every run of
        pytest imports this package, for the plugin.
        """
        if name[0].isupper() or name == "driven":  # all that the suite offers
            return getattr(import_module("lockfast.testing.contract.suite"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
