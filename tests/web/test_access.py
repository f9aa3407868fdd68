"""Who may see the dashboard, and what every answer tells the browser."""

from __future__ import annotations

import pytest

import lockfast.web
from lockfast.web import Request, User
from lockfast.web.answer import POLICY
from tests.web.engines import dashboard, in_loop
from tests.web.visitor import Headers, Visitor


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000"])
@in_loop
async def test_a_browser_on_this_machine_may_look(host: str) -> None:
    async with dashboard(host=host) as (_, visitor):
        got = await visitor.get("/")
        assert got.status == 200
        assert "read-only" in got.text


@pytest.mark.parametrize(
    ("address", "host", "headers"),
    [
        ("10.0.0.7", "localhost", []),
        ("127.0.0.1", "evil.example", []),
        ("127.0.0.1", "localhost.evil.example", []),
        ("127.0.0.1", "", []),
        ("127.0.0.1", "localhost", [("host", "evil.example")]),
        ("127.0.0.1", "localhost", [("x-forwarded-for", "10.0.0.7")]),
        ("127.0.0.1", "localhost", [("forwarded", "for=10.0.0.7")]),
        ("127.0.0.1", "localhost", [("X-Forwarded-Proto", "https")]),
        ("127.0.0.1", "localhost", [("x-forwarded-server", "proxy")]),
        ("127.0.0.1", "localhost", [("x-client-ip", "10.0.0.7")]),
        ("127.0.0.1", "localhost", [("true-client-ip", "10.0.0.7")]),
        (None, "localhost", []),
    ],
)
@pytest.mark.parametrize("path", ["/", "/table", "/static/lockfast.css", "/nothing"])
@in_loop
async def test_nobody_else_may_without_resolve(
    address: str | None, host: str, headers: Headers, path: str
) -> None:
    async with dashboard(address=address, host=host) as (_, visitor):
        got = await visitor.get(path, headers)
        assert got.status == 403
        assert "resolve=" in got.text


@in_loop
async def test_resolve_decides_instead_of_the_address() -> None:
    seen: list[Request] = []

    async def resolve(request: Request) -> User | None:
        seen.append(request)
        name = request.cookies.get("user")
        return User(name) if name else None

    async with dashboard(resolve=resolve, address="10.0.0.7", host="locks.example") as (_, visitor):
        assert (await visitor.get("/")).status == 403
        got = await visitor.get("/", [("cookie", "user=ada; other=1")])
        assert got.status == 200
        assert "signed in as" in got.text
        assert "ada" in got.text
        assert seen[-1].address == "10.0.0.7"
        assert seen[-1].headers["host"] == "locks.example"
        with pytest.raises(TypeError):
            seen[-1].headers["host"] = "another"  # type: ignore[index]


@in_loop
async def test_what_resolve_returns_is_checked() -> None:
    async with dashboard(resolve=lambda _: "ada") as (_, visitor):
        with pytest.raises(TypeError, match="User or None"):
            await visitor.get("/")


PATHS = ["/", "/table", "/static/lockfast.js", "/static/no", "/nothing", "/?page=x", ""]


@pytest.mark.parametrize("path", PATHS)
@in_loop
async def test_every_answer_has_the_headers(path: str) -> None:
    async with dashboard() as (_, visitor):
        for got in (await visitor.get(path), await visitor.send("PUT", path)):
            assert got.headers["content-security-policy"] == POLICY
            assert got.headers["x-content-type-options"] == "nosniff"
            assert got.headers["referrer-policy"] == "same-origin"
            assert len(got.names) == len(set(got.names))
            if "static/lockfast" not in path:
                assert got.headers["cache-control"] == "no-store"


@in_loop
async def test_methods_are_checked() -> None:
    async with dashboard() as (_, visitor):
        for path in ("/", "/table", "/static/lockfast.js"):
            assert (await visitor.send("POST", path)).status == 405
        head = await visitor.send("HEAD", "/")
        assert (head.status, head.body) == (200, b"")


@pytest.mark.parametrize(
    "query", ["q=%ff", "&".join(f"a{n}=1" for n in range(50)), "q=" + "x" * 9_000]
)
@in_loop
async def test_queries_are_bounded(query: str) -> None:
    async with dashboard() as (_, visitor):
        assert (await visitor.send("GET", "/", query=query)).status == 400


@pytest.mark.parametrize("name", ["", "a/b", "static", "..", "a b", "x" * 65])
def test_names_of_engines_are_checked(name: str) -> None:
    with pytest.raises(ValueError, match="an engine cannot be called"):
        lockfast.web.app({name: "memory://x"})


def test_an_empty_mapping_is_no_dashboard() -> None:
    with pytest.raises(ValueError, match="at least one engine"):
        lockfast.web.app({})


@in_loop
async def test_after_close_it_answers_that_it_is_closed() -> None:
    async with dashboard() as (_, visitor):
        assert (await visitor.get("/")).status == 200
        await visitor.app.close()
        assert (await visitor.get("/")).status == 503


@in_loop
async def test_below_a_mount_links_have_its_path() -> None:
    async with dashboard(root="/admin/lo cks") as (client, visitor):
        async with client.lock("one", ttl=5):
            got = await visitor.get("/")
        assert 'href="/admin/lo%20cks/lock?name=one"' in got.text
        assert 'href="/admin/lo%20cks/static/lockfast.css' in got.text
        moved = await visitor.get("")
        assert (moved.status, moved.headers["location"]) == (303, "/admin/lo%20cks/")
        outside = Visitor(visitor.app)  # a server that strips the mount from the path
        assert (await outside.send("GET", "/", root_path="/admin")).status == 200
