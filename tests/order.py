"""Which tests begin first when several processes share them: the longest.

xdist hands out whole files and classes, and those with the most tests first. A file with one long
test came last, and for more than three minutes the other processes had nothing to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

# Files that take more than 90 s, the longest first. One that is missing here costs some time when
# it comes last, and nothing else.
LONG = (
    "tests/contract/test_package.py",
    "tests/docs/test_pages.py",
    "tests/contract/test_deadlines.py",
    "tests/contract/test_zookeeper_faults.py",
    "tests/guards/test_postgres_hammer.py",
    "tests/contract/test_redlock_faults.py",
    "tests/previous/test_previous.py",
)


def order(tests: Iterable[str]) -> list[int]:
    """Return the places of the tests in the order in which to begin them.

    First those of the long files, then those of the classes and files with the most tests, as xdist
    would. What shares a class or a file stays together, in its order. The order depends on nothing
    but the names, because all processes must find the same.
    """
    scopes = [test.rpartition("::")[0] for test in tests]
    sizes = Counter(scopes)
    first = {scope: place for place, scope in reversed(list(enumerate(scopes)))}
    ranks = {name: rank for rank, name in enumerate(LONG)}

    def key(place: int) -> tuple[int, int, int]:
        scope = scopes[place]
        return ranks.get(scope.partition("::")[0], len(LONG)), -sizes[scope], first[scope]

    return sorted(range(len(scopes)), key=key)
