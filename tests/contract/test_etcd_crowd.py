"""The contract on a crowd of readers, on etcd: fewer than on other engines.

A claim on a shared lock reads the queue before it. 500 at once keep a core busy for ten seconds,
which is as long as a claim may take: on a loaded machine some had no time left to ask, and once in
a while with 250 too. 150 need a tenth of that.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.testing import ManyReadersContract
from tests.contract.benches import EtcdBench
from tests.servers import EtcdCluster


@pytest.fixture(scope="module")
def bench() -> Iterator[EtcdBench]:
    with EtcdCluster() as cluster:
        yield EtcdBench(cluster)


class TestManyReaders(ManyReadersContract):
    readers = 150
