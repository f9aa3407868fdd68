"""etcd under gevent: a wait for a lock must not stop the whole process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract import under_gevent
from tests.servers import EtcdCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster(1) as cluster:
        yield cluster


def test_a_wait_under_gevent_keeps_its_deadline_and_stops_nobody(cluster: EtcdCluster) -> None:
    under_gevent.waited(cluster.url)
