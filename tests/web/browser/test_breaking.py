"""Breaking a lock in a browser: by whom it may be done, and what everybody is told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import lockfast
import lockfast.web
from tests.docs.page import ROOT
from tests.web.browser.chromium import Chromium
from tests.web.browser.members import HOSTILE, held, hostile
from tests.web.browser.site import Site

NAME, REASON = "invoice:42", "web-3 hangs, <b>incident</b> 4711"
COOKIE = "who"


def resolve(request: lockfast.web.Request) -> lockfast.web.User | None:
    """Return the user of the tests: alice may break, bob may look."""
    name = request.cookies.get(COOKIE, "")
    return lockfast.web.User(name, may_break=name == "alice") if name else None


@contextmanager
def shown(browser: Chromium, url: str, user: str) -> Iterator[Site]:
    with Site(lockfast.web.app(url, resolve=resolve)) as site:
        browser.cdp("Network.setCookie", name=COOKIE, value=user, url=site.url, sameSite="Strict")
        yield site


def to_the_form(browser: Chromium, site: Site) -> None:
    """Go where one can break the only lock."""
    browser.open(site.url)
    browser.click("#live tbody .c-name a")
    browser.click("a.danger")
    browser.until(lambda: browser.one("#reason"), "the form is shown")


def is_held(client: lockfast.Client, lease: lockfast.Lease) -> bool:
    return [each.id for each in client.lock(NAME).holders()] == [lease.id]


def test_the_victim_is_told_who_has_broken_its_lock_and_why(browser: Chromium, url: str) -> None:
    argv = [sys.executable, "-W", "error", "-m", "tests.web.browser.victim", url, NAME]
    with (
        shown(browser, url, "alice") as site,
        lockfast.connect(url) as client,
        subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as victim,
    ):
        assert victim.stdout is not None
        assert victim.stdout.readline() == "holds\n"
        to_the_form(browser, site)
        assert "Breaking the lock does not stop the old holder" in browser.text()
        assert str(victim.pid) in browser.text()
        assert browser.faults() == []
        # Without a reason the browser does not send it, and neither does anybody else.
        browser.one("form button.danger").click()
        assert len(client.lock(NAME).holders()) == 1
        browser.one("#reason").send_keys(REASON)
        browser.one("form button.danger").click()
        told = victim.stdout.readline()
        assert victim.wait(60) == 0
        assert f"the lease on '{NAME}'" in told
        assert "broken by alice (dashboard)" in told
        assert REASON in told
        (record,) = client.breaks(NAME)
        assert (record.by, record.reason) == ("alice (dashboard)", REASON)
        assert client.lock(NAME).holders() == []
        browser.until(lambda: REASON in browser.text(), "the page has the record")
        assert browser.driver.current_url.startswith(f"{site.url}/lock?name=")
        assert browser.faults() == []
        assert browser.log() == []


def test_it_works_without_scripts(browser: Chromium, url: str) -> None:
    with (
        shown(browser, url, "alice") as site,
        lockfast.connect(url) as client,
        held(client, NAME),
    ):
        browser.scripts(allowed=False)
        to_the_form(browser, site)
        browser.one("#reason").send_keys("a drill")
        browser.one("form button.danger").click()
        browser.until(lambda: "a drill" in browser.text(), "the page has the record")
        assert client.lock(NAME).holders() == []


def test_one_who_may_only_look_is_refused(browser: Chromium, url: str) -> None:
    with (
        shown(browser, url, "alice") as site,
        lockfast.connect(url) as client,
        held(client, NAME) as lease,
    ):
        to_the_form(browser, site)
        form = browser.driver.current_url
        browser.cdp("Network.setCookie", name=COOKIE, value="bob", url=site.url)
        # The form of another user, who was allowed to.
        browser.one("#reason").send_keys("a drill")
        browser.one("form button.danger").click()
        browser.until(lambda: "not break it" in browser.text(), "it says so")
        browser.open(form)
        assert "not break it" in browser.text()
        browser.open(f"{site.url}/lock?name={quote(NAME)}")
        assert browser.all("a.danger") == []
        browser.cdp("Network.deleteCookies", name=COOKIE, url=site.url)
        browser.open(form)
        assert "you may not see this dashboard" in browser.text()
        assert is_held(client, lease)
        assert client.breaks(NAME) == []


def test_a_form_without_the_right_token_is_refused(browser: Chromium, url: str) -> None:
    with (
        shown(browser, url, "alice") as site,
        lockfast.connect(url) as client,
        held(client, NAME) as lease,
    ):
        for spoil in (
            "document.querySelector('[name=token]').value = 'f'.repeat(64)",
            "document.querySelector('[name=token]').remove()",
            "cookieStore",  # see below
        ):
            to_the_form(browser, site)
            if spoil == "cookieStore":
                browser.cdp("Network.deleteCookies", name="lockfast", url=site.url)
            else:
                browser.run(spoil)
            browser.one("#reason").send_keys("a drill")
            browser.one("form button.danger").click()
            browser.until(lambda: "Not allowed" in browser.text(), spoil)
            assert is_held(client, lease)
        assert browser.faults() == []
        assert client.breaks(NAME) == []


def attacker(page: str) -> Site:
    """Serve a page on another port."""

    async def app(scope: object, receive: object, send: object) -> None:  # noqa: ARG001  # of ASGI
        headers = [(b"content-type", b"text/html; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": page.encode()})  # type: ignore[operator]

    return Site(app)


ATTACK = """<!doctype html><title>attack</title>
<form id="f" method="post" action="{form}"><input name="token" value="{token}">
<input name="reason" value="attack"></form>
<iframe id="i" src="{form}"></iframe>
<script>
  const ask = more => fetch("{form}", {{credentials: "include", ...more}}).then(
    answer => answer.type === "opaque" ? "opaque" : "read", () => "failed");
  const body = new URLSearchParams({{token: "{token}", reason: "attack"}});
  window.done = Promise.all([
    ask({{}}), ask({{method: "POST", body}}), ask({{method: "POST", body, mode: "no-cors"}}),
  ]);
</script>"""


def test_a_page_of_another_origin_can_neither_read_nor_break(browser: Chromium, url: str) -> None:
    with (
        shown(browser, url, "alice") as site,
        lockfast.connect(url) as client,
        held(client, NAME) as lease,
    ):
        to_the_form(browser, site)
        form = browser.driver.current_url
        token = browser.one("[name=token]").get_attribute("value")
        # The worst case: the attacker knows the token, and is a page of the same site.
        with attacker(ATTACK.format(form=form, token=token)) as other:
            for host in ("127.0.0.1", "localhost"):
                browser.open(f"http://{host}:{other.port}/")
                results = browser.driver.execute_async_script(
                    "const done = arguments[0]; window.done.then(done)"
                )
                assert "read" not in results
                browser.driver.switch_to.frame(browser.one("#i"))
                assert "Break" not in browser.text()
                browser.driver.switch_to.default_content()
                browser.run("document.getElementById('f').submit()")
                words = "another site" if host == "127.0.0.1" else "you may not see"
                browser.until(lambda: words in browser.text(), "the form is refused")  # noqa: B023  # called here
                assert is_held(client, lease)
        assert client.breaks(NAME) == []


def test_hostile_names_and_holders_can_be_broken_too(browser: Chromium, url: str) -> None:
    with shown(browser, url, "alice") as site, lockfast.connect(url) as client, hostile(client):
        for name in HOSTILE:
            browser.open(f"{site.url}/lock?name={quote(name)}")
            browser.click("a.danger")
            browser.until(lambda: browser.one("#reason"), "the form is shown")
            assert browser.driver.title != "pwned"
            assert not set(browser.text()) & set("\x1b\x07\u202e\u2066")
            browser.run("document.getElementById('reason').value = arguments[0]", name[:100])
            browser.one("form button.danger").click()
            browser.until(lambda: "/lock?" in browser.driver.current_url, "it was broken")
            assert client.lock(name).holders() == []
            assert browser.driver.title != "pwned"
            assert browser.all("iframe, img, [onerror], main script") == []
            assert not set(browser.text()) & set("\x1b\x07\u202e\u2066")
            assert browser.log() == [], name
