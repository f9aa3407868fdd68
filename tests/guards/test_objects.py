"""The object store's guard, on a real server process: what it refuses, and why the body."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

import lockfast
from lockfast import Loss, StaleToken
from lockfast.guards.mark import Mark
from lockfast.guards.objects import AsyncObjectGuard, ObjectGuard
from lockfast.guards.objects.envelope import HEAD, pack, seal, unpack
from tests.guards.holders import Driven, permit, reader, two_holders, writer
from tests.guards.resources.aio_objects import AsyncObjectRegister, AsyncStore
from tests.guards.resources.objects import BUCKET, Client, ObjectRegister, bucket, emptied
from tests.guards.story import Resource, corrupted, refused
from tests.servers import ObjectStore, Redis
from tests.traps.modes import Loop

A, B = "a" * 32, "b" * 32


@pytest.fixture(scope="module")
def shared_client(store: ObjectStore) -> Iterator[Client]:
    with bucket(store.url) as client:
        yield client


@pytest.fixture
def client(shared_client: Client) -> Iterator[Client]:
    yield from emptied(shared_client)


@pytest.fixture(scope="module")
def driven(store: ObjectStore) -> Iterator[ObjectGuard]:
    with Loop() as loop:
        made = loop.run(AsyncStore(store.url).open())
        yield cast("ObjectGuard", Driven(loop, AsyncObjectGuard(made.client, BUCKET)))
        loop.run(made.close())


@pytest.fixture(params=["threads", "asyncio"])
def guard(request: pytest.FixtureRequest, client: Client, driven: ObjectGuard) -> ObjectGuard:
    return driven if request.param == "asyncio" else ObjectGuard(client, BUCKET)


def test_a_stale_put_is_refused_and_the_lease_is_lost(guard: ObjectGuard) -> None:
    with two_holders("x") as (stale, fresh):
        guard.put(stale, "k", b"first")
        guard.put(fresh, "k", b"second")
        with pytest.raises(StaleToken, match=f"already seen token {fresh.token}"):
            guard.put(stale, "k", b"third")
        assert guard.get("k") == b"second"
        assert stale.loss is Loss.FENCED
        fresh.ensure_held()


def test_a_holders_second_put_passes(guard: ObjectGuard) -> None:
    for body in (b"one", b"two", b"two"):
        guard.put(writer(7), "k", body)
    assert guard.get("k") == b"two"


def test_a_seal_gives_the_body_and_refuses_what_comes_between_a_read_and_the_first_write(
    guard: ObjectGuard,
) -> None:
    with two_holders("x") as (stale, fresh):
        guard.put(stale, "k", b"10")
        read = guard.seal(fresh, "k")
        assert read == b"10"
        with pytest.raises(StaleToken):
            guard.put(stale, "k", b"15")
        guard.put(fresh, "k", b"11")
    assert guard.get("k") == b"11"


def test_an_object_that_is_not_there_yet_can_be_sealed(guard: ObjectGuard) -> None:
    assert guard.seal(writer(7), "k") is None
    assert guard.get("k") is None
    with pytest.raises(StaleToken):
        guard.put(writer(6), "k", b"stale")
    guard.put(writer(7), "k", b"")
    assert guard.get("k") == b""


def test_two_equal_tokens_of_two_claims_the_first_shown_stands(guard: ObjectGuard) -> None:
    guard.put(writer(7, A), "k", b"a")
    with pytest.raises(StaleToken):
        guard.put(writer(7, B), "k", b"b")
    assert guard.get("k") == b"a"


def test_a_tombstone_keeps_the_mark_that_a_delete_would_have_lost(
    guard: ObjectGuard,
    client: Client,
) -> None:
    guard.put(writer(7), "k", b"v")
    guard.delete(writer(7), "k")
    assert guard.get("k") is None
    with pytest.raises(StaleToken):
        guard.put(writer(6), "k", b"stale")
    client.delete_object(Bucket=BUCKET, Key="k")
    guard.put(writer(6), "k", b"stale")  # the door is open: that is why there is a tombstone
    assert guard.get("k") == b"stale"


def test_a_reader_never_raises_the_mark_above_its_floor(guard: ObjectGuard) -> None:
    with lockfast.connect("memory://object readers") as engine:
        first, second = reader(engine, "x"), reader(engine, "x")
        guard.put(writer(first.ticket - 1), "k", b"v")
        assert guard.seal(second, "k") == b"v"
        assert guard.seal(first, "k") == b"v"
        with pytest.raises(StaleToken):
            guard.put(writer(first.ticket - 1), "k", b"stale")
        guard.seal(writer(second.ticket + 1), "k")
        with pytest.raises(StaleToken):
            guard.seal(second, "k")


def test_a_permit_cannot_be_fenced(
    guard: ObjectGuard,
    client: Client,
) -> None:
    with lockfast.connect("memory://object permits") as engine, permit(engine, "x") as lease:
        with pytest.raises(TypeError, match="several can be held at once"):
            guard.put(lease, "k", b"v")
        with pytest.raises(TypeError, match="several can be held at once"):
            guard.put_all(lease, "k", {"a": b"v"})
    assert "Contents" not in client.list_objects_v2(Bucket=BUCKET)


def test_the_token_of_another_lock_is_refused_as_a_mistake(guard: ObjectGuard) -> None:
    guard.put(writer(7, name="x"), "k", b"v")
    with pytest.raises(ValueError, match="guarded by the lock 'x', not 'y'"):
        guard.put(writer(8, name="y"), "k", b"w")


@pytest.mark.parametrize("body", [b"", b"plain", b'{"lockfast": 2}\n', b'{"lockfast": 1}\n'])
def test_an_object_that_no_guard_wrote_is_not_touched(
    guard: ObjectGuard,
    client: Client,
    body: bytes,
) -> None:
    client.put_object(Bucket=BUCKET, Key="k", Body=body)
    for touch in (
        guard.get,
        lambda k: guard.put(writer(7), k, b""),
        lambda k: guard.seal(writer(7), k),
    ):
        with pytest.raises((ValueError, ClientError), match=r"not written by a guard|InvalidRange"):
            cast("Callable[[str], object]", touch)("k")
    assert client.get_object(Bucket=BUCKET, Key="k")["Body"].read() == body


def test_a_bucket_that_is_not_there_is_an_error_at_once(
    client: Client,
) -> None:
    with pytest.raises(ClientError, match="NoSuchBucket"):
        ObjectGuard(client, "nowhere").put(writer(7), "k", b"v")


# --- manifests ----------------------------------------------------------------------------------


def test_objects_of_a_manifest_change_together(guard: ObjectGuard) -> None:
    with two_holders("x") as (stale, fresh):
        guard.put_all(stale, "set", {"a": b"1", "b/ü": b"1"})
        guard.put_all(fresh, "set", {"a": b"2", "b/ü": b"2"})
        with pytest.raises(StaleToken):
            guard.put_all(stale, "set", {"a": b"3", "b/ü": b"3"})
        assert guard.get_all("set") == {"a": b"2", "b/ü": b"2"}
        guard.delete(fresh, "set")
        assert guard.get_all("set") is None


def test_a_part_that_somebody_deleted_is_missed(
    guard: ObjectGuard,
    client: Client,
) -> None:
    guard.put_all(writer(7), "set", {"a": b"1"})
    part = json.loads(guard.get("set") or b"")["a"]
    client.delete_object(Bucket=BUCKET, Key=part)
    with pytest.raises(KeyError, match="deleted while their manifest names them"):
        guard.get_all("set")


# --- the envelope, modes, the story -----------------------------------------------------------


class Deaf:
    """A proxy in front of the store that drops a condition, as some do."""

    def __init__(self, client: Client, *dropped: str) -> None:
        self.get_object = client.get_object
        self._put = client.put_object
        self._dropped = dropped
        self.puts = 0

    def put_object(self, **said: Any) -> Any:  # noqa: ANN401  # boto3's own
        self.puts += 1
        return self._put(**{key: each for key, each in said.items() if key not in self._dropped})


@pytest.mark.parametrize("dropped", ["IfMatch", "IfNoneMatch"])
@pytest.mark.parametrize("there", [False, True])
def test_a_store_that_ignores_conditions_is_found_out_by_the_first_write(
    client: Client,
    there: bool,  # noqa: FBT001  # a parameter
    dropped: str,
) -> None:
    if there:
        ObjectGuard(client, BUCKET).put(writer(6), "k", b"before")
    guard = ObjectGuard(Deaf(client, dropped), BUCKET)
    for _ in range(2):
        with pytest.raises(lockfast.EngineRefused, match=f"ignores {dropped}"):
            guard.put(writer(7), "k", b"v")


def test_that_is_found_out_once_and_changes_nothing(client: Client) -> None:
    store = Deaf(client)
    guard = ObjectGuard(store, BUCKET)
    guard.put(writer(7), "k", b"first")
    assert store.puts == 3
    assert guard.get("k") == b"first"
    guard.put(writer(7), "k", b"second")
    guard.put(writer(7), "other", b"third")
    assert store.puts == 5
    with pytest.raises(StaleToken):
        guard.put(writer(6), "k", b"stale")
    store = Deaf(client)
    guard = ObjectGuard(store, BUCKET)
    guard.check("probe")
    guard.put(writer(7), "k", b"fourth")
    assert store.puts == 3 + 1


@pytest.mark.parametrize("head", [b"[" * 100_000, b"7", b'{"lockfast": 1, "token": 1e999}'])
def test_an_envelope_that_cannot_be_read_is_no_envelope(head: bytes) -> None:
    with pytest.raises(ValueError, match="not written by a guard"):
        unpack(head + b"\nbody")


def test_the_longest_name_fits_into_the_head() -> None:
    for name in ("\0" * 512, "ü" * 256, "😀" * 128):
        envelope = seal(name, Mark(2**63, A), b"x" * 2 * HEAD)
        assert unpack(pack(envelope)[:HEAD])[:4] == envelope[:4]
        assert unpack(pack(envelope)) == envelope


def test_a_client_of_the_other_mode_is_refused(
    client: Client,
) -> None:
    with pytest.raises(TypeError, match="use ObjectGuard"):
        AsyncObjectGuard(client, BUCKET)


@pytest.mark.parametrize("register", [ObjectRegister, AsyncObjectRegister])
@pytest.mark.usefixtures("client")
def test_a_holder_that_was_paused_past_its_lease_is_refused(
    store: ObjectStore, register: type[Resource]
) -> None:
    with Redis() as engine:
        refused(engine.url, register, store.url)


@pytest.mark.usefixtures("client")
def test_without_the_guard_the_paused_holder_overwrites_its_successor(
    store: ObjectStore,
) -> None:
    with Redis() as engine:
        corrupted(engine.url, ObjectRegister, store.url)
