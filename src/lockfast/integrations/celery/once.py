"""`once`: a decorator that runs a task in one worker, although several received its message."""

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
    """Return a decorator for a task function. Put it below `@app.task`.

    Args:
        client: The client of this worker process.
        name: The lock's name, filled from the arguments of the task: `"report:{day}"`. With
            `bind=True` it can contain the message's id: `"{self.request.id}"`.
        at_least: Seconds, from the start of the task, for which a copy of its message is not run.
            Choose less than the period of a schedule, and at most the ttl. If the task fails, the
            lock is free at once, so that its retry can run.
        ttl: How long, in seconds, the lock stays taken after a worker crashes.
        on_busy: What to do with a message while another worker has the lock. `"skip"` drops it,
            since that worker usually runs a copy of it. `"retry"` sends it again, with the ttl as
            delay. Then no task is lost if the other worker crashes, but a long task may run twice.

    Returns:
        A decorator. The task raises `LeaseLost` at its end if the lease was lost, and `EngineError`
        if the engine cannot be reached.

    Raises:
        ValueError: `on_busy` is unknown, or a number is out of range.
        TypeError: An argument has the wrong type. The decorator raises this if the function has no
            parameter for a placeholder.

    Example:
        ::

            @app.task
            @once(client, "report:{day}", at_least=20, ttl=30)
            def report(day):
                print("writing the report of", day)
    """
    if on_busy not in {"skip", "retry"}:
        raise ValueError(f"on_busy must be 'skip' or 'retry', not {on_busy!r}")
    client.lock(name, ttl=ttl, at_least=at_least)  # raises here, not in a worker, if they are wrong

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
                        lease.claim.keep = 0.0  # the task failed: its retry must find the lock free
                        raise
            except NotAcquired as busy:
                if inside:
                    raise  # the task itself has failed to acquire another lock
                _leave(busy, ttl if on_busy == "retry" else None)

        return run

    return decorate


def _described(retries: int) -> str:
    """Return the purpose of the lock: the task, its message's id, and the number of the try."""
    return f"{current_task.name}[{current_task.request.id}] try {retries}"


def _follows(lock: Lock) -> bool:
    """Return whether this is a retry, and the run that sent it has not released the lock yet.

    A task sends its retry before it ends, so the retry may start too early and should wait for it.
    In all other cases another message has the lock, and waiting is pointless.
    """
    before = {_described(each) for each in range(current_task.request.retries)}
    return bool(before) and any(each.who.purpose in before for each in lock.holders())


def _leave(busy: NotAcquired, later: float | None) -> NoReturn:
    """End the task without storing a result. A copy of the message has the same id, so its result
    would overwrite that of the real run.
    """
    if later is not None:
        current_task.request.retries -= 1  # a busy lock must not use up the task's own retries
        raise current_task.retry(exc=busy, countdown=later)
    raise Ignore(str(busy)) from busy
