"""Requests that arrive after their sender died, and requests that arrive twice."""

import contextlib

from tests.robustness.faults.fault import Damage, Fault, Order, Stage, busy, told
from tests.robustness.hosts import host_of
from tests.servers.process import ServerError
from tests.servers.proxy import Proxy

_HELD = (1, 3, 6)
_DOUBLED = 20


class LateRequest(Fault):
    """Requests are held back on their way; one of the senders dies; then they are delivered."""

    kind = "late-request"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Hold some, and kill one of those that sent them."""
        proxy = busy(order.rng, stage.site.proxies)
        proxy.hold_requests(count=_HELD[order.turn % len(_HELD)])
        try:
            proxy.wait_held(timeout=5.0)
            senders = proxy.holding
            clients = [*stage.workers, *stage.site.service]
            workers = [each for each in clients if host_of(each).address in senders]
            if not workers:
                raise ServerError("no worker has sent what is held")
        except ServerError:
            _release(proxy)
            raise
        victim = order.rng.choice(workers)
        victim.kill()

        def undo() -> None:
            _release(proxy)
            victim.launch()

        return Damage(f"held requests at {proxy.address}, and killed {told(victim)}", undo)


class Duplicate(Fault):
    """Requests are carried out twice: the copy comes later, on a connection of its own.

    TCP doubles nothing; a proxy that tries again does. Only where a request stands by itself.
    """

    kind = "duplicate"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Double those of the next while; the copies are late by up to as long."""
        proxy = busy(order.rng, stage.site.proxies)
        after = order.seconds * order.rng.random()
        proxy.double_requests(_is_script, _DOUBLED, after)

        def undo() -> None:
            proxy.double_requests(_is_script, 0)

        return Damage(f"doubled requests at {proxy.address}, {after:.2f} s later", undo)


def _is_script(request: bytes) -> bool:
    return request.startswith(b"*") and b"EVALSHA" in request


def _release(proxy: Proxy) -> None:
    # They are on their way; that a server does not answer may be the other fault's work.
    with contextlib.suppress(TimeoutError):
        proxy.release_requests()
