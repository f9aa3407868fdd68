"""Which tests begin first when several processes share them: the longest.

xdist hands out whole files and classes, and those with the most tests first. A file with one long
test came last, and for more than three minutes the other processes had nothing to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

# Files that take long, or have a test or a class that does, about in that order. One that is
# missing here costs some time when it comes last, and nothing else.
LONG = (
    "tests/docs/test_pages.py",
    "tests/previous/test_previous.py",
    "tests/docs/test_engine_pages.py",
    "tests/robustness/test_simulation.py",
    "tests/unit/test_benchmarks.py",
    "tests/contract/test_deadlines.py",
    "tests/contract/test_package.py",
    "tests/docs/test_snippets.py",
    "tests/contract/test_zookeeper_faults.py",
    "tests/robustness/test_sites.py",
    "tests/contract/test_mysql_rules.py",
    "tests/contract/test_redlock_faults.py",
    "tests/migration/test_cut_over.py",
    "tests/unit/engines/test_redis_reply_parser.py",
    "tests/migration/test_crowd.py",
    "tests/contract/test_mysql_failovers.py",
    "tests/docs/test_tutorial.py",
    "tests/contract/test_postgres_batches.py",
    "tests/traps/test_databases.py",
    "tests/contract/test_redlock_formats.py",
    "tests/contract/test_mysql.py",
    "tests/contract/test_postgres.py",
    "tests/contract/test_sqlite.py",
    "tests/contract/test_redis.py",
    "tests/workloads/test_many_at_once.py",
    "tests/guards/test_postgres_hammer.py",
    "tests/guards/test_objects_hammer.py",
    "tests/guards/test_sqlalchemy_sqlite_hammer.py",
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
