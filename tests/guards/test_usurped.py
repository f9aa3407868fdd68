"""The stale lease that the tests of guards use does not learn of its loss too soon."""

from __future__ import annotations

import lockfast
from tests.guards.database import usurped


def test_a_stale_lease_is_not_renewed_before_a_third_of_its_ttl(client: lockfast.Client) -> None:
    stale, _ = usurped(client, "x", ttl=300.0)
    lane = stale.claim.lane
    assert lane is not None
    assert lane[stale.claim] > client._session.runtime.now() + 80.0
