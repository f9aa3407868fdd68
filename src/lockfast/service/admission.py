"""Decides who may connect, and who that is. It does not depend on the transport of requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockfast.runtime.base import now
from lockfast.service.access import allowed, values
from lockfast.service.caller import ANYBODY, Caller
from lockfast.service.keys import Keys
from lockfast.service.rights import Rights
from lockfast.service.subjects import CERTIFICATES, KEYS, TOKENS, Subjects
from lockfast.service.tokens import Tokens, is_token
from lockfast.service.usage import Usages

UNAUTHORIZED, FORBIDDEN = 401, 403
UNIX = "lockfast.unix"
"""The extension with which our own server says that the request came by its unix socket."""
LONGEST_SUBJECT = 1_024  # bytes of a certificate's subject
KEY, TOKEN, CERTIFICATE = "key", "token", "certificate"
Scope = Mapping[str, Any]


class Admission:
    """Who is admitted, by the configuration as it was last read. It is never changed."""

    def __init__(
        self,
        keys: Keys | None = None,
        subjects: Subjects | None = None,
        tokens: Tokens | None = None,
        header: str | None = None,
        usages: Usages | None = None,
    ) -> None:
        """Take the configuration.

        `subjects`: None: whoever has a key may do everything. `header`: the header in which a proxy
        names the subject of the client's certificate. `usages`: what subjects use already.
        """
        self._keys = Keys() if keys is None else keys
        self._subjects = subjects
        self._tokens = tokens
        self._header = None if header is None else header.lower().encode()
        self.usages = Usages(now) if usages is None else usages
        self.guarded = bool(self._keys or tokens is not None or header is not None)
        """Whether clients have to prove who they are."""

    def allowed(self, scope: Scope) -> bool:
        """Return whether a request does not come from a page in a browser."""
        return allowed(scope["headers"], keyed=self.guarded)

    def caller(self, scope: Scope) -> Caller | int:
        """Return who has sent a request, or the HTTP status with which it is refused."""
        if not self.allowed(scope):
            return FORBIDDEN
        address = _address(scope)
        if not self.guarded:
            return Caller(address=address) if address else ANYBODY
        headers = scope["headers"]
        shown = values(headers, b"authorization")
        named = [] if self._header is None else list(filter(None, values(headers, self._header)))
        unix = UNIX in (scope.get("extensions") or {})
        if named:
            # The proxy is believed, and nobody else. A second one was written by the client.
            if not unix or shown or len(named) > 1 or len(named[0]) > LONGEST_SUBJECT:
                return UNAUTHORIZED
            return self._certified(named[0].decode("latin-1"), address)
        if self._tokens is not None and is_token(shown):
            return self._tokened(self._tokens, shown[0], address)
        digest = self._keys.find(shown)
        return UNAUTHORIZED if digest is None else self._keyed(digest, address)

    def again(self, old: Caller) -> Caller | None:
        """Return who a client is now that the configuration was read again, or None if it must
        connect again.
        """
        if not self.guarded or old.proof is None:
            return None if self.guarded else Caller(address=old.address)
        kind, shown = old.proof
        found: Caller | int = UNAUTHORIZED
        if kind == KEY and isinstance(shown, bytes) and shown in self._keys:
            found = self._keyed(shown, old.address)
        elif kind == TOKEN and isinstance(shown, bytes) and self._tokens is not None:
            found = self._tokened(self._tokens, shown, old.address)
        elif kind == CERTIFICATE and isinstance(shown, str) and self._header is not None:
            found = self._certified(shown, old.address)
        return found if isinstance(found, Caller) else None

    def _keyed(self, digest: bytes, address: str) -> Caller:
        name, rights = self._keys.name(digest), None
        if self._subjects is not None:
            # A key without a subject gets in: then its requests are refused with the reason.
            rights = self._subjects.find(KEYS, [name])
            if rights is None:
                # The subject that has the name of this key is another one, if there is one.
                rights = Rights(
                    f"{name} (a key without a subject)" if name in self._subjects else name
                )
            name = rights.subject
        return self._made(name, rights, (KEY, digest), address)

    def _tokened(self, tokens: Tokens, shown: bytes, address: str) -> Caller | int:
        token = tokens.verified(shown)
        if token is None:
            return UNAUTHORIZED
        rights = None if self._subjects is None else self._subjects.find(TOKENS, token.known_as)
        if rights is None:
            return FORBIDDEN
        # Several users may have the rights of one subject.
        name = rights.subject if tokens.personal else f"{rights.subject}:{token.subject}"
        return self._made(name, rights, (TOKEN, shown), address, token.expires)

    def _certified(self, subject: str, address: str) -> Caller | int:
        rights = None if self._subjects is None else self._subjects.find(CERTIFICATES, [subject])
        if rights is None:
            return FORBIDDEN
        return self._made(rights.subject, rights, (CERTIFICATE, subject), address)

    def _made(
        self,
        name: str,
        rights: Rights | None,
        proof: tuple[str, object],
        address: str,
        expires: float | None = None,
    ) -> Caller:
        usage = None if rights is None else self.usages.of(name, rights.limits)
        return Caller(name, rights, usage, proof=proof, address=address, expires=expires)


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


OPEN = Admission()
