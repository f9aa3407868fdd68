"""The dashboard in a browser, for those who look: live, searched, safe, and for everybody."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import quote

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import lockfast
import lockfast.web
from lockfast.plain import plain
from tests.web.browser.chromium import Chromium
from tests.web.browser.members import HOSTILE, all_kinds, held, hostile
from tests.web.browser.site import Site

CHANGES = 5
SOON = 1.0  # seconds from a change until it is seen
# Notes when a name is first seen in the page, and when it has gone.
WATCH = """
window.seen = {};
const look = () => {
  const now = Date.now(), names = new Set();
  for (const each of document.querySelectorAll('#live .c-name bdi')) names.add(each.textContent);
  for (const name of names) (window.seen[name] ??= {}).came ??= now;
  for (const name in window.seen) if (!names.has(name)) window.seen[name].went ??= now;
};
const live = document.getElementById('live');
new MutationObserver(look).observe(live, {subtree: true, childList: true, characterData: true});
look();
"""
MISSED = """
const all = 'a[href], button, input:not([type=hidden]), summary, textarea, [tabindex="0"]';
return [...document.querySelectorAll(all)]
  .filter(each => each.checkVisibility() && !window.places.has(each))
  .map(each => each.outerHTML);
"""


@contextmanager
def shown(url: str) -> Iterator[Site]:
    with Site(lockfast.web.app(url)) as site:
        yield site


def names(browser: Chromium) -> list[str]:
    return [each.text for each in browser.all("#live .c-name bdi")]


def test_a_change_is_seen_within_a_second(browser: Chromium, url: str) -> None:
    delays = []
    with shown(url) as site, lockfast.connect(url) as client, held(client, "first"):
        browser.open(site.url)
        browser.until(lambda: names(browser) == ["first"], "the lock is shown")
        browser.run(WATCH)
        # Who reads with the keyboard is not sent back to the top by every update.
        browser.run("(window.kept = document.querySelector('#live tbody a')).focus()")
        for number in range(CHANGES):
            name = f"change {number}"
            with held(client, name):
                came = time.time()
                browser.until(lambda: name in browser.run("return window.seen"), name)  # noqa: B023  # called here
            went = time.time()
            browser.until(lambda: "went" in browser.run("return window.seen")[name], name)  # noqa: B023
            seen = browser.run("return window.seen")[name]
            assert browser.run("return document.activeElement === window.kept")
            delays += [seen["came"] / 1000 - came, seen["went"] / 1000 - went]
        assert browser.log() == []
    told = sorted(round(delay, 2) for delay in delays)
    print(f"seconds until a change was seen: {told}")  # noqa: T201  # for `pytest -s`
    # Half of them on a machine that has nothing else to do, and some of them on any.
    assert told[1] < SOON, told


def test_one_searches_and_sorts(browser: Chromium, url: str) -> None:
    with (
        shown(url) as site,
        lockfast.connect(url) as client,
        held(client, "invoice:42", service="billing.py", host="web-1"),
        held(client, "invoice:43", service="billing.py", host="web-2"),
        held(client, "report", service="reports.py", host="db-1"),
    ):
        browser.open(site.url)
        browser.until(lambda: len(names(browser)) == 3, "all are shown")
        box = browser.one("#q")
        for words, found in {
            "invoice": ["invoice:42", "invoice:43"],
            "REPORTS.py": ["report"],
            "web-2": ["invoice:43"],
        }.items():
            box.clear()
            box.send_keys(words)
            browser.until(lambda: names(browser) == found, f"{words} finds {found}")  # noqa: B023  # called here
        # What is typed is kept in the address, and the box keeps the focus while the table changes.
        assert browser.driver.current_url.endswith("?q=web-2&sort=waiters")
        assert browser.driver.switch_to.active_element == box
        box.clear()
        box.send_keys("nothing of that name")
        browser.until(lambda: "No lock has" in browser.text(), "it says that nothing was found")
        browser.open(f"{site.url}/?sort=name")
        browser.until(lambda: names(browser) == sorted(names(browser)), "sorted by name")
        browser.one("#sort-name").click()
        browser.until(lambda: names(browser)[0] == "report", "sorted by name, downward")
        assert browser.one("th[aria-sort]").get_attribute("aria-sort") == "descending"
        assert browser.log() == []


def test_it_works_without_scripts(browser: Chromium, url: str) -> None:
    with (
        shown(url) as site,
        lockfast.connect(url) as client,
        held(client, "invoice:42"),
        held(client, "report"),
    ):
        browser.scripts(allowed=False)
        browser.open(site.url)
        assert sorted(names(browser)) == ["invoice:42", "report"]
        browser.one("#q").send_keys("inv")
        browser.one("form[role=search] button").click()
        browser.until(lambda: names(browser) == ["invoice:42"], "it was searched for")
        with held(client, "invoice:43"):
            browser.until(lambda: refreshed(browser) == ["invoice:42", "invoice:43"], "Refresh")
        assert "GET /table" not in site.paths


def refreshed(browser: Chromium) -> list[str]:
    browser.one("a.refresh").click()
    return sorted(names(browser))


def test_a_hidden_tab_asks_for_nothing(browser: Chromium, url: str) -> None:
    with shown(url) as site, lockfast.connect(url) as client, held(client, "report"):
        browser.open(site.url)
        browser.until(lambda: site.paths.count("GET /table") > 1, "it asks")
        first = browser.driver.current_window_handle
        browser.driver.switch_to.new_window("tab")
        second = browser.driver.current_window_handle
        # An answer to what was asked before may still come.
        time.sleep(0.5)
        asked = len(site.paths)
        time.sleep(3.0)
        assert len(site.paths) == asked
        browser.driver.switch_to.window(first)
        browser.until(lambda: len(site.paths) > asked + 1, "it asks again")
        browser.driver.switch_to.window(second)
        browser.driver.close()
        browser.driver.switch_to.window(first)


PAGES = (
    "/",
    "/lock?name=invoice%3A42",
    "/lock?name=mail",
    "/lock?name=scheduler",
    "/lock?name=free",
    "/lock?name=catalogue",
    "/waits",
    "/health",
    "/?q=nothing",
)


def test_each_page_has_no_serious_fault_breaks_no_policy_and_is_reached_with_the_keyboard(
    browser: Chromium, url: str
) -> None:
    with shown(url) as site, all_kinds(url):
        browser.open(site.url)
        browser.until(lambda: len(names(browser)) == 7, "all locks are shown")
        for path in PAGES:
            for scheme in ("light", "dark"):
                browser.media(scheme)
                browser.open(f"{site.url}{path}")
                assert browser.one("main").text
                assert browser.log() == [], path
                assert browser.faults() == [], (path, scheme)
            assert missed(browser) == [], path
        # Nothing is wider than a phone, but for what scrolls by itself.
        browser.size(400)
        for path in PAGES:
            browser.open(f"{site.url}{path}")
            assert browser.run("return document.documentElement.scrollWidth") <= 400, path
            assert browser.faults() == [], path
        # Where the table has no room for all, the purpose says more than the token.
        browser.size(800)
        browser.open(site.url)
        assert "nightly run" in browser.text()
        assert not any(cell.is_displayed() for cell in browser.all("td.c-token"))


def missed(browser: Chromium) -> list[str]:
    """Press TAB until the focus has been everywhere, and return where it should have been."""
    browser.run("document.activeElement.blur(); window.places = new Set();")
    for _ in range(200):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        known = browser.run(
            "const it = document.activeElement, known = it === document.body || places.has(it);"
            "places.add(it); return known;"
        )
        if known:
            break
    found: list[str] = browser.run(MISSED)
    return found


def test_what_holders_say_of_themselves_is_only_text(browser: Chromium, url: str) -> None:
    with shown(url) as site, lockfast.connect(url) as client, hostile(client):
        browser.open(f"{site.url}/?sort=name")
        browser.until(lambda: len(names(browser)) == len(HOSTILE), "all are shown")
        assert sorted(names(browser)) == sorted(map(_collapsed, HOSTILE))
        links = {each.text: each.get_attribute("href") for each in browser.all("#live .c-name a")}
        harmless(browser)
        for name in HOSTILE:
            link = links[_collapsed(name)]
            assert link is not None
            assert link.startswith(f"{site.url}/lock?name=")
            browser.open(link)
            assert _collapsed(name) in browser.text()
            harmless(browser)
            browser.open(f"{site.url}/?q={quote(name[:200])}")
            assert browser.one("#q").get_attribute("value") is not None
            harmless(browser)
        for path in ("/waits", "/health", f"/lock?name={quote('<b>free</b>')}"):
            browser.open(f"{site.url}{path}")
            harmless(browser)


def _collapsed(name: str) -> str:
    """Return a name as it is shown, and as a browser tells its text."""
    return " ".join(plain(name).split())


def harmless(browser: Chromium) -> None:
    """Check that the page has run nothing, and has only the elements of its templates."""
    assert browser.driver.title != "pwned"
    assert (
        browser.driver.find_elements(By.CSS_SELECTOR, "iframe, img, [onerror], main script") == []
    )
    assert not set(browser.text()) & set("\x1b\x07\u202e\u2066")
    assert browser.log() == []


def test_an_engine_that_is_gone_is_said_to_be(browser: Chromium) -> None:
    with ExitStack() as stack:
        site = stack.enter_context(shown("redis://127.0.0.1:1"))
        browser.open(site.url)
        browser.until(lambda: "The engine does not answer" in browser.text(), "it says so")
        assert browser.faults() == []
