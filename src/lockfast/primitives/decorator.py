"""A lock that only decorates functions: what it says to whoever uses it in another way."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

SAID = (
    "a lock with on_busy='skip' only decorates functions. For a block, use "
    "client.lock(...).try_acquire(), which gives None while the lock is busy"
)


class OnlyDecorates:
    """To be decorated with. A type checker finds the rest, so none of this is shown to it."""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            """Say what to use instead of a method of other locks."""
            raise AttributeError(f"{SAID}: there is no {name!r}", name=name, obj=self)

        def __enter__(self) -> NoReturn:
            """Say what to use instead of `with`."""
            raise TypeError(SAID)

        __aenter__ = __enter__

        def __exit__(self, *_: object) -> None:
            """Never: nothing is entered."""

        __aexit__ = __exit__
