"""Ids that only look like ids."""

from __future__ import annotations

import pytest

from lockfast.engines.remote import messages
from lockfast.engines.remote.messages import Asked, Break, Claim, Malformed, Renew, Resign

FORGED = f"{1:032x}\n"


@pytest.mark.parametrize("kind", [Claim, Renew, Resign, Break])
def test_an_id_with_a_line_feed_is_no_id(kind: type[Claim]) -> None:
    """On Redis it shifted the bytes of all requests on the replica's connection, and on PostgreSQL
    it failed the renewals of strangers that were in one call with it.
    """
    frame = messages.encode(kind(1, 1.0, [Asked(FORGED, "name", 30.0)]))
    with pytest.raises(Malformed):
        messages.request(frame)


def test_a_wake_with_a_line_feed_is_no_wake() -> None:
    with pytest.raises(Malformed):
        messages.reply(messages.encode(messages.Woken(FORGED)))
