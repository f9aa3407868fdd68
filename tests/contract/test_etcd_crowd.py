"""The contract on a crowd of readers, on etcd: it runs alone.

A claim on a shared lock reads the queue before it, so 500 of them at once keep a core busy for ten
seconds, which is as long as a claim may take. Beside two other tests it took longer.
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
    pass
