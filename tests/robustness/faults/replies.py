"""Replies that are lost after the request was carried out, and messages that take their time."""

from tests.robustness.faults.fault import Damage, Fault, Order, Stage, busy

_LOST = (1, 3, 8)
_SLOW = (0.02, 0.1, 0.3)  # shares of the ttl


class LoseReply(Fault):
    """Requests are carried out, and their replies lost, each with its connection."""

    kind = "lose-reply"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Lose the next few."""
        proxy = busy(order.rng, stage.site.proxies)
        count = _LOST[order.turn % len(_LOST)]
        proxy.lose_replies(count)
        return Damage(f"lost {count} replies of {proxy.address}", lambda: proxy.lose_replies(0))


class Delay(Fault):
    """Requests and replies arrive late, in their order."""

    kind = "delay"

    def begin(self, stage: Stage, order: Order) -> Damage:
        """Delay both, each by a part of its own."""
        proxy = busy(order.rng, stage.site.proxies)
        whole = _SLOW[order.turn % len(_SLOW)] * stage.ttl
        there = whole * order.rng.random()
        proxy.delay(there, replies=whole - there)
        return Damage(f"delayed {proxy.address} by {whole:.3f} s", lambda: proxy.delay(0.0))
