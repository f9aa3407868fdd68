"""Ids of claims: none comes twice, and those seen tell nothing of the next."""

from __future__ import annotations

from itertools import pairwise

from lockfast.claims.ids import Ids


def test_every_id_is_new_and_names_its_client() -> None:
    ids = Ids()
    made = [ids.new() for _ in range(200_000)]
    assert len(set(made)) == len(made)
    assert {len(each) for each in made} == {32}
    assert len({each[:22] for each in made}) == 1
    assert all(set(each) <= set("0123456789abcdef") for each in made[:100])
    assert Ids().new()[:22] != made[0][:22]


def test_an_id_does_not_tell_the_next() -> None:
    ids = Ids()
    numbers = [int(ids.new()[22:], 16) for _ in range(2000)]
    steps = [later - sooner for sooner, later in pairwise(numbers)]
    assert len(set(steps)) > 1990
    assert 800 < sum(step > 0 for step in steps) < 1200


def test_ids_begin_with_the_name_that_the_client_was_given() -> None:
    name = "0123456789abcdef012345"
    first, second = Ids(name), Ids(name)
    made = [ids.new() for ids in (first, second) for _ in range(100)]
    assert {each[:22] for each in made} == {name}
    assert len(set(made)) == len(made)
    assert {len(each) for each in made} == {32}
