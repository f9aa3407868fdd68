"""The client side for httpx, blocking and asyncio: `client.put(url, auth=Fencing(lease))`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator

import httpx

from lockfast.guards.http.header import HEADER, header
from lockfast.guards.http.problem import told
from lockfast.guards.mark import Holder


class Fencing(httpx.Auth):
    """Adds the token, and turns a refusal into `StaleToken`; the lease is LOST then.

    It takes the place of an `auth`; give that one here, and it is used besides.
    """

    def __init__(self, lease: Holder, auth: httpx.Auth | None = None) -> None:
        """Take the lease. What it shows does not change while it lives."""
        self._lease = lease
        self._header = header(lease)
        self._auth = auth or httpx.Auth()

    def sync_auth_flow(
        self, request: httpx.Request
    ) -> Generator[httpx.Request, httpx.Response, None]:
        """Send one request, blocking."""
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
        """Send one request, in asyncio."""
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
