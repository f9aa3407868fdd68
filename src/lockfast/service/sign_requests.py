"""The request for a signed token: the engine confirms the grant, and the replica signs it.

A renewal finds a claim by its id. What it says of the kind and the weight is the client's word, and
a reader, or the holder of a permit, could call itself the only holder. So the engine is asked for
the claim itself too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from lockfast.engines.remote.messages import Failed, Sign, Signed
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.port import LONGEST, Kind, Page, Shape, Standing
from lockfast.runtime.base import Clock
from lockfast.service.answers import Client
from lockfast.service.entry import Answer, Entry
from lockfast.service.figures import Figures
from lockfast.service.heart import Heart
from lockfast.service.replies import fault
from lockfast.service.requests import ask_of, deadline_of
from lockfast.service.signing import Signing
from lockfast.service.tasks import Tasks
from lockfast.service.watch import Watch

AT_ONCE = 16  # looks at the engine's claims. A page of them may be large

UNSIGNED = "this service signs no tokens: its configuration has no signing_key_file"
GONE = "the claim is gone: it was released, broken, or not renewed in time"
WAITING = "the claim still waits, so there is no token yet"
OVERTAKEN = "the client has asked another replica meanwhile: ask again"
PERMIT = "a permit of a semaphore has no fencing token"
UNSEEN = "the engine does not show the claim: it has just ended, or too many share the lock"
Inspect = Callable[[str], Awaitable[Page]]
"""Returns the claims on a name."""


class SignRequests:
    """Renews a claim to learn what the engine knows of it, and signs that."""

    def __init__(  # noqa: PLR0913, PLR0917  # the parts of a replica that it uses
        self,
        inspect: Inspect,
        heart: Heart,
        tasks: Tasks,
        clock: Clock,
        figures: Figures,
        watch: Watch,
        keys: Callable[[], Signing | None],
    ) -> None:
        """Take what signs. `keys` returns the present keys."""
        self._inspect = inspect
        self._keys = keys
        self._heart = heart
        self._tasks = tasks
        self._now = clock
        self._figures = figures
        self._watch = watch
        self._turn = asyncio.Semaphore(AT_ONCE)

    def sign(self, client: Client, epoch: int, request: Sign) -> None:
        """Answer a request."""
        signing = self._keys()
        answer = Signature(client, request, self._figures, self._watch, self._begin)
        now = self._now()
        try:
            if signing is None:
                raise EngineRefused(UNSIGNED)
            answer.signing = signing
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

    def _begin(self, signature: Signature, standing: Standing) -> None:
        self._tasks.start(self._look(signature, standing))

    async def _look(self, signature: Signature, standing: Standing) -> None:
        """Have a token signed for what the engine shows of the claim."""
        try:
            async with self._turn:
                if signature.unwanted():
                    return
                page = await self._figures.measured("inspect", 0, self._inspect(signature.name))
            signature.sign(standing, _shape_in(page, signature.id, standing.ticket))
        except Exception as error:  # noqa: BLE001  # it is answered, and what is internal is logged
            signature.refuse(error)


def _shape_in(page: Page, id_: str, ticket: int) -> Shape:
    """Return the shape of the claim with this id and ticket. No ticket is given twice."""
    for entry in page.entries:
        if (entry.id, entry.ticket, entry.granted) == (id_, ticket, True):
            # Its ttl is not shown, and nothing here depends on it.
            return Shape(entry.name, LONGEST, entry.kind, entry.capacity, entry.weight)
    raise EngineRefused(UNSEEN)


class Signature:
    """Takes the engine's answers about the claim, and sends the signed token."""

    def __init__(
        self,
        client: Client,
        request: Sign,
        figures: Figures,
        watch: Watch,
        confirmed: Callable[[Signature, Standing], object],
    ) -> None:
        """Wait for the answer. `confirmed` is called with a standing that is a lease's."""
        self.id, self.name = request.ask.id, request.ask.name
        self.signing: Signing | None = None
        """The keys. None: nothing is signed."""
        self._client = client
        self._request = request
        self._figures = figures
        self._watch = watch
        self._confirmed = confirmed

    def unwanted(self) -> bool:
        """Return whether the client has left."""
        return self._client.ended

    def put(self, at: int, answer: Answer) -> None:  # noqa: ARG002  # there is one claim
        """Take the engine's answer to the renewal."""
        caller, asked = self._client.caller, self._request.ask
        try:
            if self._watch.wants(caller) and not isinstance(answer, Exception):
                self._watch.stood(caller, asked, answer, new=False)
            self._confirmed(self, self._lease(answer))
        except Exception as error:  # noqa: BLE001  # it is answered, and others wait behind it
            self.refuse(error)

    def refuse(self, error: Exception) -> None:
        """Answer that there is no signed token."""
        found = fault(error)
        self._figures.answered("sign", (found,))
        self._client.answer(Failed(self._request.n, found))

    def sign(self, standing: Standing, shape: Shape) -> None:
        """Send the signed token. The engine, and not the client, says what is in it."""
        if shape.kind is Kind.SEMAPHORE:
            raise EngineRefused(PERMIT)
        assert self.signing is not None  # noqa: S101  # `sign` has looked
        claims: dict[str, object] = {
            "aud": self._request.audience,
            "lock": shape.name,
            "token": str(standing.ticket),
            "id": self.id,
        }
        if not shape.exclusive:
            claims["floor"] = str(standing.floor)
        if self._client.caller.name:
            claims["sub"] = self._client.caller.name
        signed = Signed(self._request.n, self.signing.sign(claims))
        self._figures.answered("sign", ())
        self._client.answer(signed)

    def _lease(self, answer: Answer) -> Standing:
        """Return the standing of the lease that the client asks about. Raise if it has none."""
        if isinstance(answer, Exception):
            raise answer
        asked = self._request.ask
        if not isinstance(answer, Standing):
            raise EngineRefused(GONE)
        if not answer.left:
            raise EngineUnavailable(OVERTAKEN, sent=False)
        if not answer.granted:
            raise EngineRefused(WAITING)
        # The id was used again after the lease that the client knows: by its `Idempotency-Key`.
        if asked.granted and asked.ticket != answer.ticket:
            raise EngineRefused(GONE)
        return answer
