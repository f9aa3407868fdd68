"""The HTTP guard's client side for httpx (sync, async): `client.put(url, auth=Fencing(lease))`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator

import httpx

from lockfast.guards.http.header import HEADER, header
from lockfast.guards.http.problem import told
from lockfast.guards.mark import Holder


class Fencing(httpx.Auth):
    """Adds the token to requests. If the server rejects it, the request raises `StaleToken`, and
    the lease is LOST.

    Args:
        lease: The lease, or what `parse` of the HTTP guard returned.
        auth: Another authentication to use as well, since this one takes the place of `auth`.
        signed: The signed token, if the server verifies it: see `Lease.signed`.

    Raises:
        TypeError: The lease is a permit of a semaphore.

    Example:
        ::

            with client.lock("invoice:42", ttl=10) as lease:
                httpx.put("http://localhost:8000/invoices/42", auth=Fencing(lease))
    """

    def __init__(self, lease: Holder, auth: httpx.Auth | None = None, *, signed: str = "") -> None:
        """Take the lease. Its header never changes, so it is made here, once."""
        self._lease = lease
        self._header = header(lease, signed)
        self._auth = auth or httpx.Auth()

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        """Send one request and check its response, in sync clients."""
        request.headers[HEADER] = self._header
        flow = self._auth.sync_auth_flow(request)
        try:
            request = next(flow)
            while True:
                response = yield request
                if response.status_code == httpx.codes.PRECONDITION_FAILED:
                    response.read()
                    self._told(response)
                request = flow.send(response)
        except StopIteration:
            return
        finally:
            flow.close()

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Send one request and check its response, in async clients."""
        request.headers[HEADER] = self._header
        flow = self._auth.async_auth_flow(request)
        try:
            request = await anext(flow)
            while True:
                response = yield request
                if response.status_code == httpx.codes.PRECONDITION_FAILED:
                    await response.aread()
                    self._told(response)
                request = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _told(self, response: httpx.Response) -> None:
        kind = response.headers.get("content-type", "")
        told(self._lease, response.status_code, kind, response.content)
