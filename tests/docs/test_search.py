"""A search of the documentation leads to the page that explains the word.

`docs/_static/search_scores.js` puts the pages first that have the word in their title, and guides
before all others. So it is enough that the guide's title has the word.
"""

from __future__ import annotations

import re

import pytest

from tests.docs.page import ROOT

WANTED = {
    "semaphore": "how-to/semaphore",
    "metrics": "how-to/telemetry",
    "tracing": "how-to/telemetry",
    "leader": "how-to/election",
    "cron": "how-to/cron",
    "celery": "how-to/celery",
    "re-entrant": "how-to/re-entrant",
    "deadlock": "how-to/deadlocks",
    "migrate": "migrate/index",
    "sqlite": "engines/sqlite",
    "quickstart": "quickstart",
    "service": "service/index",
}


@pytest.mark.parametrize("word", WANTED)
def test_the_title_of_a_guide_has_the_word_that_people_search(word: str) -> None:
    page = (ROOT / "docs" / f"{WANTED[word]}.md").read_text("utf-8")
    title = page.partition("\n")[0]
    assert title.startswith("# ")
    assert word in title.lower()


def test_the_search_uses_our_scores_and_knows_the_folders_of_guides() -> None:
    assert '"search_scores.js"' in (ROOT / "docs" / "conf.py").read_text("utf-8")
    scores = (ROOT / "docs" / "_static" / "search_scores.js").read_text("utf-8")
    found = re.search(r"/\^\((.*)\)/\.test\(page\)", scores)
    assert found is not None
    for start in found[1].replace("\\/", "/").split("|"):
        path = ROOT / "docs" / start
        assert path.is_dir() or path.with_suffix(".md").exists(), start
