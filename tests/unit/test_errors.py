"""Errors cross process boundaries, and their text says where to read about them."""

from __future__ import annotations

import copy
import logging
import pickle
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import lockfast
from lockfast import (
    Deadlock,
    EngineUnavailable,
    KindMismatch,
    LeaseLost,
    LockfastError,
    Loss,
    NotAcquired,
    StaleToken,
    errors,
)

ERRORS: list[LockfastError] = [
    NotAcquired("x", 1.5, "somebody"),
    LeaseLost("x", 7, Loss.EXPIRED),
    StaleToken("x", 7, 8),
    KindMismatch("x", "lock", "semaphore"),
    Deadlock("a circle", "id"),
    EngineUnavailable("no answer", sent=True),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda each: type(each).__name__)
def test_an_error_says_the_same_after_it_was_pickled_or_copied(error: LockfastError) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301  # our own
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert vars(other) == vars(error)


def fail() -> None:
    raise LeaseLost("x", 7, Loss.GONE)


def test_an_error_of_a_worker_process_reaches_whoever_waits_for_its_result() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(LeaseLost, match="token 7") as caught:
            pool.submit(fail).result()
        assert caught.value.reason is Loss.GONE
        assert pool.submit(int).result() == 0  # the pool goes on


def test_a_lost_lease_is_named_by_its_token_and_a_shared_one_by_its_ticket() -> None:
    with lockfast.connect("memory://") as client:
        for lock, word in ((client.lock("x"), "token"), (client.rwlock("y").read(), "ticket")):
            lease = lock.acquire()
            lease.release()
            with pytest.raises(LeaseLost, match=rf"\({word} {lease.ticket}\) is not held"):
                lease.ensure_held()


def test_a_message_is_short_however_much_a_server_says() -> None:
    error = EngineUnavailable("etcd at h: " + "\x07" * 2_000_000, sent=True)
    began = time.monotonic()
    assert len(str(error)) < 20_000
    assert time.monotonic() - began < 0.5
    assert len(pickle.dumps(error)) < 20_000
    assert str(error).startswith("etcd at h: ")
    assert error.message.endswith("...")
    assert str(error).endswith("... (see: engine-unavailable)")  # the reference is not cut off


@pytest.mark.parametrize("error", ERRORS, ids=lambda each: type(each).__name__)
def test_the_text_ends_with_the_name_of_the_entry_on_the_page(error: LockfastError) -> None:
    assert str(error) == f"{error.message} (see: {error.anchor})"
    assert error.args == (error.message,)


def test_with_a_site_the_text_ends_with_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    error = LeaseLost("x", 7, Loss.GONE)
    sent = pickle.dumps(error)
    monkeypatch.setattr(errors, "SITE", "https://docs.example/en/0.1/")
    end = " (see: https://docs.example/en/0.1/troubleshooting.html#lease-lost)"
    for each in (error, pickle.loads(sent)):  # noqa: S301  # our own
        assert str(each) == error.message + end


def test_an_error_without_a_message_still_says_where_to_read() -> None:
    assert str(LockfastError()) == "(see: lockfast-error)"


def test_a_class_of_another_package_refers_to_the_entry_of_its_base() -> None:
    class Throttled(EngineUnavailable):
        """An engine's own."""

    assert str(Throttled("later", sent=False)) == "later (see: engine-unavailable)"


def test_the_reference_is_in_log_lines_tracebacks_and_groups_of_exceptions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = NotAcquired("x", 1.5, "somebody")
    logging.getLogger("app").error("no report today: %s", error)
    assert caplog.messages == [f"no report today: {error.message} (see: not-acquired)"]
    group = ExceptionGroup("two jobs failed", [error, KeyError("x")])
    for each in (error, group, group.subgroup(NotAcquired)):
        assert each is not None
        shown = "".join(traceback.format_exception(each))
        assert shown.count("(see: not-acquired)") == 1


def test_an_error_that_quotes_another_has_one_reference() -> None:
    inner = EngineUnavailable("no answer", sent=True)
    outer = EngineUnavailable(f"2 of 5 nodes answered: {errors.quoted(inner)}", sent=True)
    assert str(outer) == "2 of 5 nodes answered: no answer (see: engine-unavailable)"
    assert errors.quoted(ValueError("no number")) == "no number"
