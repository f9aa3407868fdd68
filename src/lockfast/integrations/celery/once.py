"""`once`: of all workers that got a task's message, or a copy of it, one runs it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Literal, NoReturn, ParamSpec, TypeVar

from celery import current_task
from celery.exceptions import Ignore

from lockfast.blocking.client import Client, Lock
from lockfast.errors import NotAcquired
from lockfast.primitives.name_template import Template

P = ParamSpec("P")
T = TypeVar("T")


def once(
    client: Client,
    name: str,
    *,
    at_least: float,
    ttl: float = 30.0,
    on_busy: Literal["skip", "retry"] = "skip",
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate what `app.task` is given.

    `name`: filled from the call's arguments, `"report:{day}"`. With `bind=True` there is the
    message's id too: `"{self.request.id}"`.
    `at_least`: seconds from its start for which a copy of the message finds it done; shorter than
    the period of a schedule, and at most the ttl. A run that failed leaves the way free at once,
    for its retry.
    `ttl`: seconds for which a worker that died blocks the others.
    `on_busy`: "skip" drops the message: as a rule another has it. "retry" sends it again, to come
    back after the ttl: nothing is lost if that other dies, and what takes long may run again.
    """
    if on_busy not in {"skip", "retry"}:
        raise ValueError(f"on_busy is 'skip' or 'retry', not {on_busy!r}")
    client.lock(name, ttl=ttl, at_least=at_least)  # what is wrong with them is said here

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        template = Template(name, function)

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            inside = False
            filled = template.name(args, kwargs)
            lock = client.lock(
                filled,
                ttl=ttl,
                timeout=ttl if _follows(client.lock(filled)) else 0.0,
                purpose=_described(current_task.request.retries),
                at_least=at_least,
            )
            try:
                with lock as lease:
                    inside = True
                    template.inject(args, kwargs, lease)
                    try:
                        return function(*args, **kwargs)
                    except BaseException:
                        lease.claim.keep = 0.0  # nothing was done: a retry must not find it done
                        raise
            except NotAcquired as busy:
                if inside:
                    raise  # of a lock that the task itself did not get
                _leave(busy, ttl if on_busy == "retry" else None)

        return run

    return decorate


def _described(retries: int) -> str:
    """Say for what the lock is held: this task, its message, and which try it is."""
    return f"{current_task.name}[{current_task.request.id}] try {retries}"


def _follows(lock: Lock) -> bool:
    """Return whether this is a retry, and the run that sent it has not released the lock yet.

    A task sends its retry first and ends then. Nothing else is worth waiting for.
    """
    before = {_described(each) for each in range(current_task.request.retries)}
    return bool(before) and any(each.who.purpose in before for each in lock.holders())


def _leave(busy: NotAcquired, later: float | None) -> NoReturn:
    """End without a result: a copy of the message has the same id, and would write over it."""
    if later is not None:
        current_task.request.retries -= 1  # those that a task has are for its own failures
        raise current_task.retry(exc=busy, countdown=later)
    raise Ignore(str(busy)) from busy
