"""One resignation request: sends it, and returns the answer for each claim."""

from __future__ import annotations

from collections.abc import Sequence

from lockfast.claims.claim import Claim
from lockfast.errors import EngineError
from lockfast.port import Engine


async def resign(
    engine: Engine, claims: Sequence[Claim], deadline: float, *, doubt: bool
) -> dict[Claim, bool | Exception]:
    """Resign claims. Return for each whether it was there, or the error if its resignation failed.

    An error of the whole request is the answer for every claim.
    """
    try:
        answers = await engine.resign([claim.ask for claim in claims], deadline, doubt=doubt)
    except EngineError as error:
        return dict.fromkeys(claims, error)
    return dict(zip(claims, answers, strict=True))


def failures(answers: dict[Claim, bool | Exception]) -> dict[Claim, Exception]:
    """Return the claims whose resignation failed, with the error of each."""
    return {claim: said for claim, said in answers.items() if isinstance(said, Exception)}
