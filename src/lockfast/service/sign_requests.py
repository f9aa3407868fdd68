"""The request for a signed token: the engine confirms the grant, and the replica signs it."""

from __future__ import annotations

from collections.abc import Callable

from lockfast.engines.remote.messages import Failed, Sign, Signed
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.port import Kind, Standing
from lockfast.runtime.base import Clock
from lockfast.service.answers import Client
from lockfast.service.entry import Answer, Entry
from lockfast.service.figures import Figures
from lockfast.service.heart import Heart
from lockfast.service.replies import fault
from lockfast.service.requests import ask_of, deadline_of, shape_of
from lockfast.service.signing import Signing
from lockfast.service.watch import Watch

UNSIGNED = "this service signs no tokens: its configuration has no signing_key_file"
GONE = "the claim is gone: it was released, broken, or not renewed in time"
WAITING = "the claim still waits, so there is no token yet"
OVERTAKEN = "the client has asked another replica meanwhile: ask again"
PERMIT = "a permit of a semaphore has no fencing token"


class SignRequests:
    """Renews a claim to learn what the engine knows of it, and signs that."""

    def __init__(
        self,
        heart: Heart,
        clock: Clock,
        figures: Figures,
        watch: Watch,
        keys: Callable[[], Signing | None],
    ) -> None:
        """Take what signs. `keys` returns the present keys."""
        self._keys = keys
        self._heart = heart
        self._now = clock
        self._figures = figures
        self._watch = watch

    def sign(self, client: Client, epoch: int, request: Sign) -> None:
        """Answer a request."""
        signing = self._keys()
        answer = Signature(client, request, signing, self._figures, self._watch)
        now = self._now()
        try:
            if signing is None:
                raise EngineRefused(UNSIGNED)
            if request.ask.kind == Kind.SEMAPHORE:
                raise EngineRefused(PERMIT)
            ask = ask_of(request.ask, epoch)
            if self._watch.checks(client.caller):
                self._watch.claim(client.caller, ask, new=False)
        except ValueError as error:
            answer.put(0, EngineRefused(str(error)))
        except EngineRefused as error:
            answer.put(0, error)
        else:
            entry = Entry(ask, now, deadline_of(request.within, now), answer, 0)
            entry.urgent = True
            self._heart.renew(entry)


class Signature:
    """Takes the engine's answer about the claim, and sends the signed token."""

    def __init__(
        self,
        client: Client,
        request: Sign,
        signing: Signing | None,
        figures: Figures,
        watch: Watch,
    ) -> None:
        """Wait for the answer."""
        self._client = client
        self._request = request
        self._signing = signing
        self._figures = figures
        self._watch = watch

    def unwanted(self) -> bool:
        """Return whether the client has left."""
        return self._client.ended

    def put(self, at: int, answer: Answer) -> None:  # noqa: ARG002  # there is one claim
        """Take the answer."""
        caller, asked = self._client.caller, self._request.ask
        if self._watch.wants(caller) and not isinstance(answer, Exception):
            self._watch.stood(caller, asked, answer, new=False)
        try:
            reply: Signed | Failed = Signed(self._request.n, self._signed(answer))
        except Exception as error:  # noqa: BLE001  # it is answered, and others wait behind it
            reply = Failed(self._request.n, fault(error))
        self._figures.answered("sign", (reply.fault,) if isinstance(reply, Failed) else ())
        self._client.answer(reply)

    def _signed(self, answer: Answer) -> str:
        """Return the signed token. The engine, and not the client, says what is in it."""
        if isinstance(answer, Exception):
            raise answer
        if not isinstance(answer, Standing):
            raise EngineRefused(GONE)
        if not answer.left:
            raise EngineUnavailable(OVERTAKEN, sent=False)
        if not answer.granted:
            raise EngineRefused(WAITING)
        asked = self._request.ask
        assert self._signing is not None  # noqa: S101  # `sign` has looked
        claims: dict[str, object] = {
            "aud": self._request.audience,
            "lock": asked.name,
            "token": str(answer.ticket),
            "id": asked.id,
        }
        if not shape_of(asked.name, asked.ttl, asked.kind, asked.capacity, asked.weight).exclusive:
            claims["floor"] = str(answer.floor)
        if self._client.caller.name:
            claims["sub"] = self._client.caller.name
        return self._signing.sign(claims)
