"""Error replies of Redis, as each version words them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import hiredis
import pytest

from lockfast.engines.redis.topology import Cluster, Sentinels
from lockfast.engines.redis.transport import Address, Login, code, failure
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.runtime.drive import drive

WRAPPED = "ERR Error running script (call to f_2e8d4a): @user_script:36:"
HERE = Address("h", 6379)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("READONLY You can't write against a read only replica.", "READONLY"),
        (f"{WRAPPED} @user_script: 36: -READONLY You can't write. ", "READONLY"),
        (f"{WRAPPED} -OOM command not allowed when used memory > 'maxmemory'. ", "OOM"),
        (f"{WRAPPED} attempt to index nil", "ERR"),
        ("@user_script: 36: -READONLY You can't write. ", "READONLY"),
        ("NOSCRIPT No matching script. Please use EVAL.", "NOSCRIPT"),
    ],
)
def test_the_code_of_an_error_is_found_though_redis_6_2_wraps_it(said: str, meant: str) -> None:
    assert code(hiredis.ReplyError(said)) == meant


@pytest.mark.parametrize(
    "told",
    [
        *(None, 7, [], [b"1"], [b"1", b"2", b"3"], [b"x", b"0"]),
        *([b"9" * 400, b"0"], [b"1", b"9" * 400], [b"9" * 12, b"0"], [b"9" * 5000, b"0"]),
        *([b"-1", b"0"], [b"0", b"0"], [b"1", b"-1"]),
    ],
)
def test_a_server_that_tells_an_impossible_time_is_not_used(told: object) -> None:
    with pytest.raises(
        EngineUnavailable, match="Redis at h:6379 does not return its time"
    ) as caught:
        Login.welcome(HERE, [b"OK", told], 5.0)
    assert not caught.value.sent


def test_a_wrapped_readonly_is_worth_another_attempt() -> None:
    wrapped = "ERR Error running script (call to f_1): @user_script:36: @user_script: 36: {} what. "
    later = failure(hiredis.ReplyError(wrapped.format("-READONLY")), HERE)
    assert isinstance(later, EngineUnavailable)
    full = failure(hiredis.ReplyError(wrapped.format("-OOM")), HERE)
    assert isinstance(full, EngineRefused)
    assert "raise maxmemory" in str(full)


def test_a_move_without_a_host_leads_to_the_host_that_was_asked() -> None:
    cluster = Cluster([HERE])
    assert cluster.moved(7, "MOVED 3999 :6381", HERE) == Address("h", 6381)
    assert cluster.moved(7, "ASK 3999 other:6382", HERE) == Address("other", 6382)
    assert cluster.moved(7, "MOVED junk", HERE) is None


def test_sentinels_may_be_asked_by_several_threads_at_once() -> None:
    addresses = [Address("h", 26379 + n, sentinel=True) for n in range(3)]
    sentinels = Sentinels(addresses, "main")
    meeting = threading.Barrier(2)

    async def call(address: Address, packet: bytes) -> list[bytes]:
        del packet
        if address == addresses[0]:
            meeting.wait(5)  # both threads have begun, and both move the second to the front
            raise EngineUnavailable("down", sent=False)
        return [b"primary", b"6379"]

    with ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            jobs = [pool.submit(lambda: drive(sentinels.refresh(call))) for _ in range(2)]
            for job in jobs:
                job.result(10)
            sentinels._sentinels = addresses
    assert sentinels.find(0) == Address("primary", 6379)


def test_a_name_that_no_sentinel_has_is_said_to_be_wrong() -> None:
    sentinel = Address("h", 26379, sentinel=True)

    async def call(address: Address, packet: bytes) -> None:
        del address, packet

    with pytest.raises(EngineUnavailable, match=r"has no such name\. Check the name in the URL"):
        drive(Sentinels([sentinel], "mian").refresh(call))


def test_a_server_outside_of_a_cluster_is_named_with_the_url_for_it() -> None:
    async def call(address: Address, packet: bytes) -> hiredis.ReplyError:
        del address, packet
        return hiredis.ReplyError("ERR This instance has cluster support disabled")

    with pytest.raises(EngineUnavailable, match=r"h:6379 is not in a cluster\. Write redis://"):
        drive(Cluster([HERE]).refresh(call))
