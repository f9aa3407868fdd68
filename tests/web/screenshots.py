"""The pictures of the dashboard, in Chromium, of locks of every kind.

`python -m tests.web.screenshots` takes them again: into `screenshots/` beside this file, and those
of the documentation. It needs `pngquant`.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import lockfast
import lockfast.web
from lockfast.cli.demo.staff import Staff, disturb
from tests.servers import Redis, wait_until
from tests.servers.process import program
from tests.web.browser.chromium import Chromium
from tests.web.browser.site import Site

FOLDER = Path(__file__).with_name("screenshots")
DOCS = Path(__file__).parents[2] / "docs" / "pictures"
WIDTHS, SCHEMES = (1300, 800, 400), ("light", "dark")
PAGES = {
    "overview": "/",
    "lock": "/lock?name=invoice%3A42",
    "semaphore": "/lock?name=mail",
    "waits": "/waits",
    "break": "/break?name=invoice%3A42",
    "health": "/health",
}
IN_DOCS = {"dashboard": "overview", "dashboard-lock": "lock", "dashboard-waits": "waits"}
LONG = 90.0


def user(_: lockfast.web.Request) -> lockfast.web.User:
    """Return who looks."""
    return lockfast.web.User("alice", may_break=True)


@contextmanager
def scene() -> Iterator[tuple[Site, lockfast.Client]]:
    """Let the workers of the demo act until there is much to see."""
    over = threading.Event()
    with ExitStack() as stack:
        url = stack.enter_context(Redis()).url
        client = stack.enter_context(lockfast.connect(url))
        staff = stack.enter_context(Staff(url))
        site = stack.enter_context(Site(lockfast.web.app(url, resolve=user)))
        disturbing = threading.Thread(target=disturb, args=(client, staff, over))
        disturbing.start()
        stack.callback(disturbing.join)
        stack.callback(over.set)
        with Chromium() as looker:  # from the first moment on, so that there is a history
            looker.open(site.url)
            wait_until(lambda: bool(client.breaks("import")), "a lock was broken", LONG)
        yield site, client


def at_its_best(client: lockfast.Client, page: str) -> None:
    """Wait until a page has something special to show."""
    if page == "waits":
        wait_until(lambda: bool(client.deadlocks()), "two are in a deadlock", LONG)
    elif page == "overview":
        wait_until(lambda: any(map(late, client.inspect())), "a process is paused", LONG)


def late(claim: lockfast.Holder) -> bool:
    """Tell whether the holder does not renew, and its lease is about to end."""
    return claim.granted and 1.8 < claim.left < claim.life * 0.5


def broken(browser: Chromium, site: Site) -> str:
    """Return the address of the form that breaks a lock."""
    browser.open(f"{site.url}{PAGES['lock']}")
    browser.click("a.danger")
    browser.until(lambda: browser.one("#reason"), "the form is shown")
    return browser.driver.current_url


def main() -> None:
    """Take all of them."""
    FOLDER.mkdir(exist_ok=True)
    with scene() as (site, client), Chromium() as browser:
        for page, path in PAGES.items():
            where = broken(browser, site) if page == "break" else f"{site.url}{path}"
            for scheme in SCHEMES:
                for width in WIDTHS:
                    browser.media(scheme)
                    browser.size(width)
                    shown = False
                    while not shown:
                        at_its_best(client, page)
                        browser.open(where)
                        time.sleep(1.2)  # the first updates are in it
                        shown = page != "waits" or "Deadlock of" in browser.text()
                    taken = small(browser.screenshot())
                    (FOLDER / f"{page}-{width}-{scheme}.png").write_bytes(taken)
    for name, page in IN_DOCS.items():
        (DOCS / f"{name}.png").write_bytes((FOLDER / f"{page}-1300-light.png").read_bytes())


def small(png: bytes) -> bytes:
    """Return a picture with 64 colours, which are enough for a page."""
    argv = [program("pngquant"), "--strip", "--speed", "1", "64", "-"]
    return subprocess.run(argv, input=png, capture_output=True, check=True).stdout


if __name__ == "__main__":
    main()
