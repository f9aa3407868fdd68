"""Helpful errors for objects that look like a lock, but cannot be used as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn


class NotALock:
    """A base class that raises `_said` if the object is used as a lock.

    A type checker finds these mistakes by itself, so the methods are hidden from it.
    """

    __slots__ = ()
    _said: ClassVar[str]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an error that says what to use instead."""
            raise AttributeError(f"{self._said}: there is no {name!r}", name=name, obj=self)

        def __enter__(self) -> NoReturn:
            """Raise an error that says what to use instead of `with`."""
            raise TypeError(self._said)

        __aenter__ = __enter__

        def __exit__(self, *_: object) -> None:
            """Do nothing. It is never called, since `__enter__` raises."""

        __aexit__ = __exit__


class OnlyDecorates(NotALock):
    """The base of locks with `on_busy="skip"`, which can only decorate functions."""

    _said = (
        "a lock with on_busy='skip' can only decorate functions. For a block, use "
        "client.lock(...).try_acquire(), which returns None while the lock is busy"
    )
