"""A blocking connection that is closed while it is made."""

from __future__ import annotations

import contextlib
import threading
import time

from lockfast.engines.remote.identity import Identity
from lockfast.engines.remote.threads import ThreadTransport
from lockfast.engines.remote.url import address_of
from lockfast.errors import EngineError
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse
from tests.servers import Proxy, wait_until
from tests.servers.service import Service
from tests.service.peers import Held


def test_a_transport_that_is_closed_while_it_connects_keeps_no_connection() -> None:
    """Its thread served the new connection for ever, once for each such client."""
    with Service(lambda _: Held().made) as service:
        host, port = service.url.removeprefix("lockfast://").split(":")
        with Proxy(host, int(port)) as proxy:
            proxy.delay(0.0, replies=0.3)
            address = address_of(parse(f"lockfast://{proxy.address}"))
            transport = ThreadTransport(address, Identity(), Threads())

            def connect() -> None:
                with contextlib.suppress(EngineError):
                    drive(transport.connected(now() + 3.0))

            thread = threading.Thread(target=connect)
            thread.start()
            time.sleep(0.15)
            drive(transport.close())
            thread.join()
            wait_until(lambda: not proxy.open_connections, "the connection is closed", 2.0)
