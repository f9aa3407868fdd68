"""Signed tokens of the service: who gets one, what it says, and how its key is replaced."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import lockfast
from lockfast import EngineRefused, EngineUnavailable, KindMismatch, LeaseLost, aio
from lockfast.engines.memory import Memory
from lockfast.engines.remote.messages import Asked, Failed, Reply, Sign
from lockfast.guards.mark import shown
from lockfast.guards.signed import Proofs, PublicKeys
from lockfast.port import SHARED, Kind, Shape, Standing
from lockfast.service.caller import Caller
from lockfast.service.config import Config
from lockfast.service.figures import Figures
from lockfast.service.sign_requests import Signature
from lockfast.service.signing import JWKS, MISSING, Signing
from lockfast.service.watch import Watch
from tests.servers import free_port, wait_until
from tests.service.http.site import Site
from tests.service.served import Voice, bearer
from tests.service.signing_keys import new_pem, written
from tests.service.test_access import KEY, OTHER, Guarded, keys

AUDIENCE = "https://billing.example.com"
ONE, TWO = new_pem(), new_pem()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "signing.pem"
    written(path, ONE)
    return path


def config(file: Path) -> Config:
    return Config(port=0, keys=keys(billing=KEY, other=OTHER), signing_key_file=str(file))


@pytest.fixture
def guarded(file: Path) -> Iterator[Guarded]:
    with Guarded(config(file)) as found:
        yield found


@pytest.fixture
def client(guarded: Guarded) -> Iterator[lockfast.Client]:
    with lockfast.connect(url(guarded)) as client:
        yield client


def url(guarded: Guarded, key: str = KEY) -> str:
    return f"lockfast://:{key}@127.0.0.1:{guarded.port}"


def public(guarded: Guarded) -> PublicKeys:
    return PublicKeys(f"http://127.0.0.1:{guarded.port}{JWKS}")


def publishes(guarded: Guarded, pems: bytes) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{guarded.port}{JWKS}") as reply:
        return bool(reply.read() == Signing(pems).jwks)


def test_a_signed_token_says_what_the_lease_says(guarded: Guarded, client: lockfast.Client) -> None:
    with client.lock("invoice:42", ttl=30) as lease:
        proven = Proofs(public(guarded), AUDIENCE).verify(lease.signed(AUDIENCE), "invoice:42")
        assert proven.shown == shown(lease)
        assert proven.subject == "billing"


def test_in_asyncio_too(guarded: Guarded) -> None:
    async def signed_there() -> str:
        async with aio.connect(url(guarded)) as client, client.lock("x", ttl=30) as lease:
            return await lease.signed(AUDIENCE)

    signed = asyncio.run(signed_there())
    keys = Signing(ONE).jwks
    assert Proofs(PublicKeys(json.loads(keys)), AUDIENCE).verify(signed, "x").subject == "billing"


def test_a_reader_has_its_floor(guarded: Guarded, client: lockfast.Client) -> None:
    with client.rwlock("x", ttl=30).read() as lease:
        proven = Proofs(public(guarded), AUDIENCE).verify(lease.signed(AUDIENCE), "x")
        assert proven.shown == shown(lease)
        assert proven.shown.shared


def test_a_permit_has_none(client: lockfast.Client) -> None:
    with (
        client.semaphore("x", 2, ttl=30) as permit,
        pytest.raises(TypeError, match="no fencing token"),
    ):
        permit.signed(AUDIENCE)


@pytest.mark.parametrize("audience", ["", "a b", "é", "x" * 257, "a\n"])
def test_an_audience_that_is_not_possible_is_an_error(
    client: lockfast.Client, audience: str
) -> None:
    with client.lock("x", ttl=30) as lease, pytest.raises(ValueError, match="audience"):
        lease.signed(audience)


def test_a_lease_that_ended_has_none(client: lockfast.Client) -> None:
    lease = client.lock("x", ttl=30).acquire()
    lease.release()
    with pytest.raises(LeaseLost):
        lease.signed(AUDIENCE)


def test_a_lease_that_was_broken_has_none(guarded: Guarded, client: lockfast.Client) -> None:
    lease = client.lock("x", ttl=30).acquire()
    with lockfast.connect(url(guarded, OTHER)) as operator:
        (holder,) = operator.inspect("x")
        assert operator.revoke(holder, "test")
    with pytest.raises(EngineRefused, match="the claim is gone"):
        lease.signed(AUDIENCE)


def test_over_http_by_the_handle(guarded: Guarded) -> None:
    site = Site(guarded.port, KEY)
    granted = site.acquire("x").body
    answer = site.post("/v1/sign", {"handle": granted["handle"], "audience": AUDIENCE})
    assert answer.status == 200
    proven = Proofs(public(guarded), AUDIENCE).verify(answer.body["signed"], "x")
    assert (str(proven.shown.token), proven.subject) == (granted["token"], "billing")
    foreign = Site(guarded.port, OTHER).post(
        "/v1/sign", {"handle": granted["handle"], "audience": AUDIENCE}
    )
    assert foreign.status == 403
    assert site.release(granted["handle"])
    gone = site.post("/v1/sign", {"handle": granted["handle"], "audience": AUDIENCE})
    assert (gone.status, gone.body["error"]) == (410, "gone")


def test_who_waits_has_none(guarded: Guarded, client: lockfast.Client) -> None:
    site = Site(guarded.port, KEY)
    with client.lock("x", ttl=30):
        queued = site.acquire("x", wait=0.1).body
        answer = site.post("/v1/sign", {"handle": queued["handle"], "audience": AUDIENCE})
        permit = site.acquire("y", kind="semaphore", capacity=2).body
        none = site.post("/v1/sign", {"handle": permit["handle"], "audience": AUDIENCE})
    assert (answer.status, answer.body["error"]) == (409, "waiting")
    assert "still waits" in answer.body["message"]
    assert (none.status, none.body["error"]) == (409, "permit")


def test_without_a_key_nothing_is_signed() -> None:
    with Guarded(Config(port=0)) as guarded:
        assert guarded.get(JWKS) == 404
        site = Site(guarded.port)
        handle = site.acquire("y").body["handle"]
        unsigned = site.post("/v1/sign", {"handle": handle, "audience": AUDIENCE})
        assert unsigned.status == 404
        assert "no signing_key_file" in unsigned.body["message"]
        with (
            lockfast.connect(f"lockfast://127.0.0.1:{guarded.port}") as client,
            client.lock("x", ttl=30) as lease,
            pytest.raises(EngineRefused, match="no signing_key_file"),
        ):
            lease.signed(AUDIENCE)


@pytest.mark.parametrize(
    "answer",
    [
        KindMismatch("x", "lock", "semaphore"),
        EngineUnavailable("no answer", sent=True),
        RuntimeError("an error of an engine"),
    ],
    ids=["other kind", "unavailable", "internal"],
)
def test_an_error_of_the_engine_is_passed_on_and_is_not_a_loss(answer: Exception) -> None:
    """Unknown is not lost. Nor is it raised: other claims of the same call are answered later."""
    client, figures = Heard(), Figures(lambda: 0)
    asked = Asked("a" * 32, "x", 30.0)
    request = Sign(7, 1.0, asked, AUDIENCE)
    watch = Watch(time.monotonic, figures)
    Signature(client, request, figures, watch, never).put(0, answer)
    (reply,) = client.replies
    assert isinstance(reply, Failed)
    assert reply.n == 7
    assert "gone" not in reply.fault.why


def test_a_subject_that_is_no_text_is_answered() -> None:
    client, figures = Heard(), Figures(lambda: 0)
    client.caller = Caller("\ud800")
    asked = Asked("a" * 32, "x", 30.0)
    request = Sign(7, 1.0, asked, AUDIENCE)
    standing = Standing(5, granted=True, left=30.0)
    watch = Watch(time.monotonic, figures)
    signature = Signature(client, request, figures, watch, signed_now)
    signature.signing = Signing(ONE)
    signature.put(0, standing)
    (reply,) = client.replies
    assert isinstance(reply, Failed)


def never(*_: object) -> None:
    raise AssertionError("nothing is confirmed")


def signed_now(signature: Signature, standing: Standing) -> None:
    signature.sign(standing, Shape("x", 30.0))


KINDS = {
    "lock": (Kind.LOCK, 1, 1),
    "reader": (Kind.READ_WRITE, SHARED, 1),
    "writer": (Kind.READ_WRITE, SHARED, SHARED),
    "permit": (Kind.SEMAPHORE, 2, 1),
}


@pytest.mark.parametrize("told", ["lock", "reader", "writer"])
@pytest.mark.parametrize("held", KINDS)
def test_what_is_signed_is_what_is_held_and_not_what_the_client_says(
    guarded: Guarded, held: str, told: str
) -> None:
    """A renewal finds a claim by its id, whatever kind its client calls it now."""
    proofs = Proofs(public(guarded), AUDIENCE)
    kind, capacity, weight = KINDS[held]
    with guarded.socket(bearer(KEY)) as socket:
        voice = Voice(socket)
        asks = [
            voice.new("x", kind=int(kind), capacity=capacity, weight=weight)
            for _ in range(1 if held in {"lock", "writer"} else 2)
        ]
        stood = [voice.claim(asked).results[0] for asked in asks]
        asked, standing = asks[-1], stood[-1]
        assert standing is not None
        assert standing.granted
        asked.kind, asked.capacity, asked.weight = (int(each) for each in KINDS[told])
        reply = voice.call(Sign(0, 2.0, asked, AUDIENCE))
    if held == "permit":
        assert isinstance(reply, Failed)
        assert "a permit of a semaphore" in reply.fault.why
        return
    proven = proofs.verify(reply.token, "x").shown
    assert proven.token == standing.ticket
    assert proven.shared == (held == "reader")
    if held == "reader":
        assert stood[0] is not None
        assert proven.floor == stood[0].ticket


def test_a_handle_of_an_earlier_lease_gets_no_token_of_the_next_one(guarded: Guarded) -> None:
    """One that was lost, and whose `Idempotency-Key` somebody has used again."""
    site = Site(guarded.port, KEY)
    lost = site.acquire("x", ttl=0.2, key="job-7").body
    wait_until(lambda: not site.get("/v1/locks?name=x").body["locks"], "it is lost")
    later = site.acquire("x", key="job-7").body
    assert later["token"] != lost["token"]
    answers = [
        site.post("/v1/sign", {"handle": each["handle"], "audience": AUDIENCE})
        for each in (lost, later)
    ]
    assert [answer.status for answer in answers] == [410, 200]
    assert "the claim is gone" in answers[0].body["message"]


class Heard:
    """A client that keeps what it is told."""

    client = "a" * 22
    ended = False
    kept = None

    def __init__(self) -> None:
        self.caller = Caller()
        self.replies: list[Reply] = []

    def answer(self, reply: Reply) -> None:
        self.replies.append(reply)


def test_other_engines_sign_nothing() -> None:
    with (
        lockfast.connect("memory://") as client,
        client.lock("x", ttl=30) as lease,
        pytest.raises(EngineRefused, match="connect to `lockfast serve`"),
    ):
        lease.signed(AUDIENCE)
    assert not hasattr(Memory(), "sign")


def test_the_public_keys_are_for_everybody(guarded: Guarded) -> None:
    where = f"http://127.0.0.1:{guarded.port}{JWKS}"
    with urllib.request.urlopen(where) as reply:
        assert reply.headers["content-type"] == "application/jwk-set+json"
        assert reply.headers["cache-control"] == "public, max-age=300"
        (key,) = json.loads(reply.read())["keys"]
    assert sorted(key) == ["alg", "crv", "kid", "kty", "use", "x"]  # and not d, the private part
    assert guarded.get(JWKS, "Host: localhost", "Origin: https://evil.example") == 200


def test_a_key_is_replaced_without_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "signing.pem"
    written(path, ONE)
    with Guarded(config(path)) as guarded, lockfast.connect(url(guarded)) as client:
        lease = client.lock("x", ttl=60).acquire()
        old = lease.signed(AUDIENCE)
        cached = Proofs(public(guarded), AUDIENCE)  # by a resource that loads no keys meanwhile
        for pems in ((ONE, TWO), (TWO, ONE), (TWO,)):
            written(path, *pems)
            guarded.reload(replace(guarded.now))
            wait_until(partial(publishes, guarded, b"".join(pems)), "the keys are published")
            if pems == (ONE, TWO):
                cached.verify(lease.signed(AUDIENCE), "x")
                cached = Proofs(public(guarded), AUDIENCE)
            elif pems == (TWO, ONE):
                new = lease.signed(AUDIENCE)
                for signed in (old, new):
                    cached.verify(signed, "x")
        fresh = Proofs(public(guarded), AUDIENCE)
        fresh.verify(new, "x")
        with pytest.raises(ValueError, match="a key that the service does not have"):
            fresh.verify(old, "x")
        lease.release()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "1 to 4 private keys"),
        (b"nonsense", "1 to 4 private keys"),
        (ONE + ONE, "a key is in it twice"),
        (b"".join(new_pem() for _ in range(5)), "1 to 4 private keys"),
        (ONE.replace(b"MC4", b"MC5"), "cannot be read"),
        (ONE + TWO[:-20], "cut off"),
        (ONE + TWO.replace(b"PRIVATE", b"ENCRYPTED PRIVATE"), "encrypted"),
    ],
    ids=["empty", "nonsense", "twice", "many", "damaged", "cut off", "encrypted"],
)
def test_a_file_that_cannot_be_used_is_an_error(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "signing.pem"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=why):
        Guarded(config(path))


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jwt", None)
    with pytest.raises(ImportError, match="lockfast\\[jwt\\]") as caught:
        Signing(ONE)
    assert str(caught.value) == MISSING


def test_an_address_without_keys_is_named(guarded: Guarded) -> None:
    at = f"127.0.0.1:{guarded.port}"
    with pytest.raises(OSError, match=f"public keys at http://{at}/jwks .* Its path is {JWKS}"):
        PublicKeys(f"http://{at}/jwks")
    with pytest.raises(OSError, match=f"public keys at https://{at}.* cannot be loaded: .*SSL"):
        PublicKeys(f"https://{at}{JWKS}")
    nobody = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(OSError, match=f"public keys at {nobody}.* cannot be loaded: .*refused"):
        PublicKeys(nobody)


def test_the_audience_of_a_token_is_shown(guarded: Guarded, client: lockfast.Client) -> None:
    with client.lock("x", ttl=30) as lease:
        signed = lease.signed("https://other.example.com")
    with pytest.raises(ValueError, match=f"'https://other.example.com', and not for {AUDIENCE!r}"):
        Proofs(public(guarded), AUDIENCE).verify(signed, "x")
