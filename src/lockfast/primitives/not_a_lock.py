"""Objects that look like a lock and are none: what they say to whoever uses them as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NoReturn


class NotALock:
    """A type checker finds these mistakes by itself, so none of the methods is shown to it."""

    __slots__ = ()
    _said: ClassVar[str]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Say what to use instead of a method of a lock."""
            raise AttributeError(f"{self._said}: there is no {name!r}", name=name, obj=self)

        def __enter__(self) -> NoReturn:
            """Say what to use instead of `with`."""
            raise TypeError(self._said)

        __aenter__ = __enter__

        def __exit__(self, *_: object) -> None:
            """Never: nothing is entered."""

        __aexit__ = __exit__


class OnlyDecorates(NotALock):
    """A lock that only decorates functions."""

    _said = (
        "a lock with on_busy='skip' only decorates functions. For a block, use "
        "client.lock(...).try_acquire(), which gives None while the lock is busy"
    )
