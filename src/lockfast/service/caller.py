"""Who has sent a request: a subject of the configuration, as its key, token or certificate says."""

from __future__ import annotations

import json

from lockfast.service.rights import Rights
from lockfast.service.stamp import Stamp
from lockfast.service.usage import Usage


class Caller:
    """One client, as far as the service knows who it is."""

    __slots__ = ("address", "expires", "name", "proof", "rights", "stamp", "usage")

    def __init__(  # noqa: PLR0913  # what is known of a client
        self,
        name: str = "",
        rights: Rights | None = None,
        usage: Usage | None = None,
        *,
        proof: tuple[str, object] | None = None,
        address: str = "",
        expires: float | None = None,
    ) -> None:
        """Take what the client has proved."""
        self.name = name
        """What is stamped into its claims. Empty: nobody has to prove who they are."""
        self.rights = rights
        """None: it may do everything, because the configuration has no rights."""
        self.usage = usage
        """What its subject uses. None: it has no limits."""
        self.proof = proof
        """How it has proved who it is: "key", "token" or "certificate", and what it showed."""
        self.address = address
        """The address from which it has connected. Empty: a unix socket."""
        self.expires = expires
        """When its proof ends, by the wall clock. None: never."""
        self.stamp = Stamp(name, address) if name else None

    def __repr__(self) -> str:
        """Return who it is, without the proof."""
        return f"Caller({json.dumps(self.name)} at {self.address})"


ANYBODY = Caller()
