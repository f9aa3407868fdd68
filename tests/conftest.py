"""What holds for all tests: signals work as in a terminal, and each failure is recorded."""

import os
import signal
import threading
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from lockfast import engines
from lockfast.engines.batching import Batching
from lockfast.errors import LockfastError
from tests import cost
from tests.order import order
from tests.stolen import LOOK, Watch, record, wait_quiet

# Under nohup, or in the background of a script, these are ignored, and every child inherits that:
# then Ctrl-C and a hang-up, which tests send, would do nothing.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)

# How long an example takes says more about the machine than about the code. `make quick` asks for
# the second profile.
settings.register_profile(
    "tests", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("quick", settings.get_profile("tests"), max_examples=20)
settings.load_profile("tests")


# "off" or a number: how many claims every engine gets in one call, whatever it asks for.
if batch := os.environ.get("LOCKFAST_TEST_BATCH"):
    size = 1 if batch == "off" else int(batch)
    engines._batched = lambda engine, runtime: (
        Batching(engine, runtime, size) if size > 1 else engine
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put long tests first, if xdist is told to keep the order that it finds (tests/tries.py)."""
    if not config.getoption("loadscopereorder", default=True):
        items[:] = [items[place] for place in order([item.nodeid for item in items])]


WATCH = pytest.StashKey[Watch]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Wait for a quiet machine, unless other tests run beside this one; then watch it.

    A wrapper, and the first: pytest-timeout's wrapper starts the clock of the test, and a wait of
    two minutes within it once ended the whole run.
    """
    session = item.session
    last = session.stash.setdefault(WATCH, Watch())
    if last.passed() >= LOOK and not hasattr(session.config, "workerinput"):
        wait_quiet(last)
        session.stash[WATCH] = Watch()
    item.stash[WATCH] = Watch()
    before = cost.spent()
    try:
        return (yield)
    finally:
        cost.record(item.nodeid, cost.spent() - before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what was stolen during a test that failed."""
    report = yield
    if report.failed:
        record(item.nodeid, item.stash[WATCH].share())
    return report


@pytest.fixture(autouse=True, scope="session")
def _no_error_quotes_the_reference_of_another() -> Iterator[None]:
    """Fail where a message quotes `str()` of an error of lockfast: it would have two references.

    In every test, because the places that quote are those where servers fail, in every engine.
    """
    init = LockfastError.__init__

    def checked(self: LockfastError, message: str = "") -> None:
        assert "(see: " not in message, f"quote its `message`, or use `quoted`: {message}"
        init(self, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LockfastError, "__init__", checked)
        yield
