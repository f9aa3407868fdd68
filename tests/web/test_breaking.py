"""Breaking a lock in the dashboard: who may, what is checked, and what is recorded."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from lockfast import LeaseLost
from lockfast.web import Request, User, csrf
from lockfast.web import request as requests
from lockfast.web.answer import Message
from lockfast.web.pages import breaking
from tests.web.engines import dashboard, in_loop
from tests.web.visitor import Got, Headers, Visitor

SAME: Headers = [("sec-fetch-site", "same-origin"), ("origin", "http://localhost")]


def resolve(request: Request) -> User | None:
    name = request.cookies.get("user", "")
    return User(name, may_break=name != "eve") if name else None


class Browser:
    """A browser with cookies, of a user."""

    def __init__(self, visitor: Visitor, user: str) -> None:
        self.visitor = visitor
        self.cookies = {"user": user}

    @property
    def cookie(self) -> tuple[str, str]:
        return "cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    async def ask(self, name: str, id_: str) -> Got:
        got = await self.visitor.get("/break", [self.cookie], name=name, id=id_)
        if "set-cookie" in got.headers:
            name, _, rest = got.headers["set-cookie"].partition("=")
            self.cookies[name] = rest.partition(";")[0]
        return got

    async def send(self, name: str, id_: str, form: dict[str, str], more: Headers = SAME) -> Got:
        return await self.visitor.post(f"/break?name={name}&id={id_}", form, [self.cookie, *more])


def token(got: Got) -> str:
    found = re.search('name="token" value="([0-9a-f]{64})"', got.text)
    assert found is not None, got.text
    return found[1]


@in_loop
async def test_it_breaks_with_a_reason_and_records_who_did_it() -> None:
    async with dashboard(resolve=resolve) as (client, visitor):
        lease = await client.lock("one", ttl=3).acquire()
        waiting = asyncio.create_task(client.lock("one", ttl=3).acquire())
        (holder, *_) = await client.lock("one").queue()
        ada = Browser(visitor, "ada")
        asked = await ada.ask("one", holder.id)
        assert "does not stop the old holder" in asked.text
        assert "end its process" in asked.text
        assert str(holder.who.pid) in asked.text
        cookie = asked.headers["set-cookie"]
        assert "SameSite=Strict" in cookie
        assert "HttpOnly" in cookie
        done = await ada.send("one", holder.id, {"token": token(asked), "reason": "it hangs"})
        assert done.status == 303
        assert done.headers["location"] == "/lock?name=one&done=broken"
        page = await visitor.get("/lock", [ada.cookie], name="one", done="broken")
        assert "The lock was broken" in page.text
        assert "ada (dashboard)" in page.text
        assert "it hangs" in page.text
        (record,) = await client.breaks("one")
        assert (record.by, record.reason, record.id) == ("ada (dashboard)", "it hangs", holder.id)
        await asyncio.wait_for(lease.wait_lost(), 20)
        with pytest.raises(LeaseLost, match="it hangs"):
            lease.ensure_held()
        await (await waiting).release()


@in_loop
async def test_a_long_name_of_a_user_does_not_hide_where_the_break_came_from() -> None:
    async with dashboard(resolve=resolve) as (client, visitor):
        lease = await client.lock("one", ttl=3).acquire()
        (holder,) = await client.lock("one").holders()
        mallory = Browser(visitor, "root on db1 pid 7" + "_" * 300)
        form = {"token": token(await mallory.ask("one", holder.id)), "reason": "it hangs"}
        assert (await mallory.send("one", holder.id, form)).status == 303
        (record,) = await client.breaks("one")
        assert record.by.endswith("_ (dashboard)")
        await asyncio.wait_for(lease.wait_lost(), 20)


@in_loop
async def test_a_link_cannot_say_that_a_lock_was_broken() -> None:
    async with dashboard(resolve=resolve) as (_, visitor):
        got = await visitor.get("/lock", [("cookie", "user=ada")], name="one", done="broken")
        assert got.status == 200
        assert "The lock was broken" not in got.text


@pytest.mark.parametrize("path", ["/break?name=one&id=x"])
@in_loop
async def test_who_may_not_break_is_refused(path: str) -> None:
    async with dashboard(resolve=resolve) as (client, visitor), client.lock("one", ttl=10):
        (holder,) = await client.lock("one").holders()
        ada, eve = Browser(visitor, "ada"), Browser(visitor, "eve")
        shown = token(await ada.ask("one", holder.id))
        assert (await eve.ask("one", holder.id)).status == 403
        eve.cookies |= {name: each for name, each in ada.cookies.items() if name != "user"}
        assert eve.cookies["lockfast"]
        for made in (shown, csrf.token(eve.cookies["lockfast"], "eve")):
            got = await eve.send("one", holder.id, {"token": made, "reason": "why not"})
            assert got.status == 403
            assert "but not break it" in got.text
        page = await visitor.get("/lock", [eve.cookie], name="one")
        assert "/break?" not in page.text
        assert await client.lock("one").holders()
    async with dashboard() as (_, visitor):  # without resolve, nobody may
        assert (await visitor.get(path)).status == 403
        form = {"reason": "x", "token": csrf.token("0" * 64, "")}
        cookie = ("cookie", f"lockfast={'0' * 64}")
        assert "not break it" in (await visitor.post(path, form, [cookie, *SAME])).text


FORGED: list[tuple[str, dict[str, Any]]] = [
    ("another site", {"more": [("sec-fetch-site", "cross-site")]}),
    ("another site", {"more": [("sec-fetch-site", "same-site")]}),
    ("another site", {"more": [("sec-fetch-site", "none")]}),
    ("another site", {"more": [("origin", "https://evil.example")]}),
    ("another site", {"more": [("origin", "http://localhost:81")]}),
    ("another site", {"more": [("origin", "null")]}),
    ("another site", {"more": []}),
    ("another user or browser", {"form": {"token": "0" * 64}}),
    ("another user or browser", {"form": {"token": ""}}),
    ("another user or browser", {"form": {"token": "\N{SNOWMAN}"}}),
    ("another user or browser", {"user": "bob"}),
    ("another user or browser", {"cookie": "0" * 64}),
    ("no cookie", {"cookie": "not hexadecimal"}),
    ("no cookie", {"cookie": ""}),
]


@pytest.mark.parametrize(("why", "change"), FORGED)
@in_loop
async def test_forged_forms_are_refused(why: str, change: dict[str, Any]) -> None:
    async with dashboard(resolve=resolve) as (client, visitor), client.lock("one", ttl=10):
        (holder,) = await client.lock("one").holders()
        ada = Browser(visitor, "ada")
        form = {"token": token(await ada.ask("one", holder.id)), "reason": "it hangs"}
        form |= change.get("form", {})
        if "user" in change:
            ada.cookies["user"] = change["user"]
        if "cookie" in change:
            ada.cookies["lockfast"] = change["cookie"]
        got = await ada.send("one", holder.id, form, change.get("more", SAME))
        assert got.status == 403
        assert why in got.text
        assert [each.id for each in await client.lock("one").holders()] == [holder.id]


@pytest.mark.parametrize("more", [SAME[:1], SAME[1:], [("origin", "http://LOCALHOST")]])
@in_loop
async def test_either_header_of_the_browser_is_enough(more: Headers) -> None:
    async with dashboard(resolve=resolve) as (client, visitor):
        lease = await client.lock("one", ttl=10).acquire()
        (holder,) = await client.lock("one").holders()
        ada = Browser(visitor, "ada")
        form = {"token": token(await ada.ask("one", holder.id)), "reason": "it hangs"}
        assert (await ada.send("one", holder.id, form, more)).status == 303
        assert await client.lock("one").holders() == []
        assert lease.token


@pytest.mark.parametrize("reason", ["", "  \n ", "x" * 301])
@in_loop
async def test_the_reason_is_mandatory_and_bounded(reason: str) -> None:
    async with dashboard(resolve=resolve) as (client, visitor), client.lock("one", ttl=10):
        (holder,) = await client.lock("one").holders()
        ada = Browser(visitor, "ada")
        form = {"token": token(await ada.ask("one", holder.id)), "reason": reason}
        got = await ada.send("one", holder.id, form)
        assert got.status == 400
        assert 'aria-invalid="true"' in got.text
        assert await client.lock("one").holders()


@in_loop
async def test_a_lease_that_has_ended_is_not_broken() -> None:
    async with dashboard(resolve=resolve) as (client, visitor):
        lease = await client.lock("one", ttl=10).acquire()
        (holder,) = await client.lock("one").holders()
        ada = Browser(visitor, "ada")
        form = {"token": token(await ada.ask("one", holder.id)), "reason": "it hangs"}
        await lease.release()
        async with client.lock("one", ttl=10) as other:
            got = await ada.send("one", holder.id, form)
            assert got.headers["location"].endswith("done=gone")
            assert "not hold the lock any more" in (await ada.ask("one", holder.id)).text
            other.ensure_held()
        assert await client.breaks("one") == []


@in_loop
async def test_names_with_line_breaks_and_markup_are_broken_too() -> None:
    name = "a\r\nb&id=<x>\t\u202e"
    async with dashboard(resolve=resolve) as (client, visitor):
        lease = await client.lock(name, ttl=10).acquire()
        (holder,) = await client.lock(name).holders()
        ada = Browser(visitor, "ada")
        asked = await ada.ask(name, holder.id)
        found = re.search('action="([^"]*)"', asked.text)
        assert found is not None
        form = {"token": token(asked), "reason": "<b>"}
        where = found[1].replace("&amp;", "&")
        got = await visitor.post(where, form, [ada.cookie, *SAME])
        assert got.status == 303
        assert (await client.breaks(name))[0].reason == "<b>"
        page = await visitor.send("GET", got.headers["location"], headers=[ada.cookie])
        assert "&lt;b&gt;" in page.text
        await lease.wait_lost()


@in_loop
async def test_a_form_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "SLOWEST", 0.05)

    async def never() -> Message:
        await asyncio.sleep(60.0)
        raise AssertionError

    headers = {"content-type": "application/x-www-form-urlencoded"}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    with pytest.raises(requests.TooSlow):
        await requests.form(Request({"headers": raw}), never)
    async with dashboard(resolve=resolve) as (_, visitor):
        monkeypatch.setattr(breaking, "form", lambda request, _: requests.form(request, never))
        form = {"reason": "x", "token": "0" * 64}
        got = await visitor.post("/break?name=one&id=x", form, [("cookie", "user=ada"), *SAME])
        assert got.status == 408


@in_loop
async def test_bodies_are_bounded_and_forms() -> None:
    async with dashboard(resolve=resolve) as (_, visitor):
        ada = Browser(visitor, "ada")
        kind = ("content-type", "application/x-www-form-urlencoded")
        sent: dict[str, Any] = {"headers": [ada.cookie, *SAME, kind], "query": "name=one&id=x"}
        chunk = b"a=" + b"x" * 30_000
        got = await visitor.send("POST", "/break", chunks=[chunk] * 3, **sent)
        assert got.status == 413
        many = "&".join(f"a{n}=1" for n in range(30)).encode()
        assert (await visitor.send("POST", "/break", chunks=[many], **sent)).status == 400
        assert (await visitor.send("POST", "/break", chunks=[], **sent)).status == 400
        sent["headers"] = [ada.cookie, *SAME, ("content-type", "text/plain")]
        assert (await visitor.send("POST", "/break", chunks=[b"a=1"], **sent)).status == 400


@in_loop
async def test_over_tls_the_cookie_belongs_to_this_host_alone() -> None:
    async with dashboard(resolve=resolve) as (client, visitor), client.lock("one", ttl=10):
        got = await visitor.send(
            "GET", "/break?name=one&id=x", headers=[("cookie", "user=ada")], scheme="https"
        )
        cookie = got.headers["set-cookie"]
        assert cookie.startswith("__Host-lockfast=")
        assert "Secure" in cookie
        assert "Path=/" in cookie
