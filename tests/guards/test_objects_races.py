"""What happens between an object's read and its put, and why the mark is in the body."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from lockfast import EngineRefused, StaleToken
from lockfast.guards.mark import Mark
from lockfast.guards.objects import ObjectGuard
from lockfast.guards.objects.envelope import pack, seal
from tests.guards.holders import writer
from tests.guards.resources.objects import BUCKET, Client, bucket, emptied
from tests.servers import ObjectStore

A = "a" * 32


@pytest.fixture(scope="module")
def shared_client(store: ObjectStore) -> Iterator[Client]:
    with bucket(store.url) as client:
        yield client


@pytest.fixture
def client(shared_client: Client) -> Iterator[Client]:
    yield from emptied(shared_client)


# --- trap 50 ------------------------------------------------------------------------------------


def test_a_seal_in_metadata_leaves_the_etag_and_the_stale_put_passes(
    client: Client,
) -> None:
    before = client.put_object(Bucket=BUCKET, Key="k", Body=b"v", Metadata={"token": "6"})["ETag"]
    sealed = client.put_object(Bucket=BUCKET, Key="k", Body=b"v", Metadata={"token": "7"})["ETag"]
    assert sealed == before
    client.put_object(Bucket=BUCKET, Key="k", Body=b"stale", IfMatch=before)  # 6 has overtaken 7


def test_a_seal_in_the_body_changes_the_etag_and_the_stale_put_is_refused(
    client: Client,
) -> None:
    guard = ObjectGuard(client, BUCKET)
    guard.put(writer(6), "k", b"v")
    before = client.head_object(Bucket=BUCKET, Key="k")["ETag"]
    guard.seal(writer(7), "k")
    assert client.head_object(Bucket=BUCKET, Key="k")["ETag"] != before
    stale = pack(seal("x", Mark(6, A), b"stale"))
    with pytest.raises(ClientError, match="PreconditionFailed"):
        client.put_object(Bucket=BUCKET, Key="k", Body=stale, IfMatch=before)


def test_the_same_body_written_twice_has_two_etags(
    client: Client,
) -> None:
    guard, etags = ObjectGuard(client, BUCKET), set()
    for _ in range(2):
        guard.put(writer(7), "k", b"same")
        etags.add(client.head_object(Bucket=BUCKET, Key="k")["ETag"])
    assert len(etags) == 2


# --- what happens between the read and the put --------------------------------------------------


class Meddled:
    """A client in whose way something happens, once, right before its next conditional put."""

    def __init__(self, client: Client, meddle: Callable[[], object]) -> None:
        self._client = client
        self._put = client.put_object
        self._meddle: Callable[[], object] | None = meddle

    def get_object(self, **how: str) -> Client:
        return self._client.get_object(**how)

    def put_object(self, **how: Client) -> Client:
        meddle, self._meddle = self._meddle, None
        if meddle is not None:
            meddle()
        return self._put(**how)


def test_a_writer_that_was_overtaken_after_its_read_reads_again_and_is_refused(
    client: Client,
) -> None:
    other = ObjectGuard(client, BUCKET)
    slow = ObjectGuard(Meddled(client, lambda: other.seal(writer(8), "k")), BUCKET)
    with pytest.raises(StaleToken, match="already seen token 8"):
        slow.put(writer(7), "k", b"late")
    assert other.get("k") is None


def test_a_writer_that_overtakes_a_stale_one_after_its_read_reads_again_and_wins(
    client: Client,
) -> None:
    other = ObjectGuard(client, BUCKET)
    slow = ObjectGuard(Meddled(client, lambda: other.put(writer(6), "k", b"stale")), BUCKET)
    slow.put(writer(7), "k", b"fresh")
    assert other.get("k") == b"fresh"


def test_a_seal_keeps_the_write_that_came_between_its_read_and_its_put(
    client: Client,
) -> None:
    other = ObjectGuard(client, BUCKET)
    slow = ObjectGuard(Meddled(client, lambda: other.put(writer(6), "k", b"in time")), BUCKET)
    assert slow.seal(writer(7), "k") == b"in time"


def test_a_holders_next_put_needs_no_read_before_it(
    client: Client,
) -> None:
    reads = []

    class Counted(Meddled):
        def get_object(self, **how: str) -> Client:
            reads.append(how)
            return client.get_object(**how)

    guard = ObjectGuard(Counted(client, lambda: None), BUCKET)
    guard.put(writer(7), "k", b"v")
    for body in (b"w", b"x"):
        guard.put(writer(7), "k", body)
    assert len(reads) == 1
    ObjectGuard(client, BUCKET).seal(writer(8), "k")
    with pytest.raises(StaleToken):
        guard.put(writer(7), "k", b"stale")
    assert ObjectGuard(client, BUCKET).get("k") == b"x"


class LostReply(Meddled):
    """A client whose first put is applied, its reply lost, and sent again by the driver."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, lambda: None)
        self.applied = 0

    def put_object(self, **how: Client) -> Client:
        if self._meddle is not None:
            self._meddle = None
            self._put(**how)
            self.applied += 1
        reply = self._put(**how)
        self.applied += 1
        return reply


def test_a_put_whose_reply_was_lost_finds_itself_and_is_written_once(
    client: Client,
) -> None:
    lossy = LostReply(client)
    guard = ObjectGuard(lossy, BUCKET)
    guard.put(writer(7), "k", b"v")
    assert guard.get("k") == b"v"
    assert lossy.applied == 1


class Busy(Meddled):
    """A client of a store that is busy with another's put: AWS answers 409 then, moto never."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, lambda: None)

    def put_object(self, **how: Client) -> Client:
        if self._meddle is not None:
            self._meddle = None
            error = {"Error": {"Code": "ConditionalRequestConflict", "Message": "busy"}}
            status = {"ResponseMetadata": {"HTTPStatusCode": 409}}
            raise ClientError(cast("Any", error | status), "PutObject")
        return self._put(**how)


def test_a_conflict_is_tried_again(
    client: Client,
) -> None:
    guard = ObjectGuard(Busy(client), BUCKET)
    guard.put(writer(7), "k", b"v")
    assert guard.get("k") == b"v"


def test_a_store_that_ignores_conditions_is_found_out(
    client: Client,
) -> None:
    ObjectGuard(client, BUCKET).check("probe")

    class Deaf(Meddled):
        def put_object(self, **how: Client) -> Client:
            how.pop("IfMatch", None)
            return self._put(**how)

    with pytest.raises(EngineRefused, match="ignores IfMatch"):
        ObjectGuard(Deaf(client, lambda: None), BUCKET).check("probe")
