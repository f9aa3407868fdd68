"""The ledger: it loses nothing with a server that crashes, and knows when an ensemble has."""

import shutil
from collections.abc import Iterator

import pytest

from tests.robustness.sites.ledger import Ledger
from tests.robustness.traffic.clock import now
from tests.servers import ServerError, ZooKeeperEnsemble, wait_until


@pytest.fixture
def ensemble() -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(properties={"zookeeper.forceSync": "yes"}) as started:
        yield started


@pytest.fixture
def ledger(ensemble: ZooKeeperEnsemble) -> Iterator[Ledger]:
    ledger = Ledger([server.address for server in ensemble.servers])
    ledger.start()
    try:
        yield ledger
    finally:
        ledger.close()


def _wait_for_more(ledger: Ledger) -> None:
    before = len(ledger.told)
    wait_until(lambda: len(ledger.told) > before + 30, "thirty entries", 30.0)


def test_a_crash_loses_nothing_that_was_acknowledged(
    ensemble: ZooKeeperEnsemble, ledger: Ledger
) -> None:
    _wait_for_more(ledger)
    leader = ensemble.leader()
    leader.kill()
    _wait_for_more(ledger)
    leader.start(timeout=30.0)
    assert ledger.since() is None


def test_what_an_ensemble_lost_is_told(ensemble: ZooKeeperEnsemble, ledger: Ledger) -> None:
    began = now()
    _wait_for_more(ledger)
    for server in ensemble.servers:
        server.kill()
    lost = now()
    for server in ensemble.servers[:2]:
        shutil.rmtree(server.data_path / "version-2")
        server.launch()
    ensemble.wait_leader()
    ensemble.start()
    since = ledger.since()
    assert since is not None
    assert began < since < lost


def test_a_server_that_was_not_looked_at_to_the_end_is_no_proof(
    ensemble: ZooKeeperEnsemble, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.robustness.sites.ledger._LAST", 4.0)
    _wait_for_more(ledger)
    down = ensemble.followers()[0]
    down.kill()
    with pytest.raises(ServerError, match=f"not read to its end at {down.address}$"):
        ledger.since()
