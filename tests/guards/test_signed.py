"""Signed tokens at the resource: what is forged, swapped, foreign or stale is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import socketserver
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from lockfast import StaleToken
from lockfast.guards.http import Door, header
from lockfast.guards.http.door import Refused
from lockfast.guards.mark import Mark, Shown, admit
from lockfast.guards.signed import Proofs, PublicKeys
from lockfast.guards.signed import keys as loading
from lockfast.service.signing import TYPE, Signing
from tests.servers import wait_until
from tests.servers.certificates import Certificates
from tests.service.signing_keys import new_pem

AUDIENCE, NAME, ID = "https://billing", "invoice:42", "a" * 32
PEM, STRANGER = new_pem(), new_pem()
SIGNING = Signing(PEM)
KEYS = json.loads(SIGNING.jwks)
KID = KEYS["keys"][0]["kid"]
SAID = {"aud": AUDIENCE, "lock": NAME, "token": "7", "id": ID, "sub": "billing"}
AT = Shown(NAME, 7, ID, 7, shared=False)


@pytest.fixture
def proofs() -> Proofs:
    return Proofs(PublicKeys(KEYS), AUDIENCE)


def of(token: str) -> dict[str, object]:
    return {"token": token}


def signed(other: Mapping[str, object] = MappingProxyType({}), **more: object) -> str:
    said: dict[str, object] = {**SAID, **other, **more}
    return SIGNING.sign({name: value for name, value in said.items() if value is not None})


def made(said: object, *, pem: bytes = PEM, **headers: Any) -> str:  # noqa: ANN401
    """Sign anything, with any header."""
    key = load_pem_private_key(pem, None)
    assert isinstance(key, Ed25519PrivateKey)
    whole = {"kid": KID, "typ": TYPE, **headers}
    return jwt.PyJWS().encode(json.dumps(said).encode(), key, algorithm="EdDSA", headers=whole)


def now(**more: object) -> dict[str, object]:
    return {**SAID, "iat": int(time.time()), **more}


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_a_signed_token_is_proven(proofs: Proofs) -> None:
    proven = proofs.verify(signed(), NAME)
    assert (proven.shown, proven.subject) == (AT, "billing")
    assert abs(proven.issued - time.time()) < 10
    proofs.check(signed(), AT)


def test_one_without_a_subject(proofs: Proofs) -> None:
    assert proofs.verify(signed(sub=None), NAME).subject == ""


def test_a_stale_one_is_proven_and_the_mark_refuses_it(proofs: Proofs) -> None:
    later = proofs.verify(signed(of("8"), id="b" * 32), NAME).shown
    mark = admit(admit(None, AT), later)
    assert mark == Mark(8, "b" * 32)
    with pytest.raises(StaleToken):
        admit(mark, proofs.verify(signed(), NAME).shown)


@pytest.mark.parametrize(
    ("forged", "why"),
    [
        ("", "no signed token"),
        ("a.b", "no signed token"),
        ("a.b.c", "not valid|no signed token"),
        ("x" * 9_000, "no signed token"),
        (signed() + "\n", "no signed token"),
        (made(now(), pem=STRANGER), "not valid"),
        (made(now(), kid="other"), "a key that the service does not have"),
        (made(now(), typ="JWT"), "no signed token of a lock"),
        (made(now(), crit=["b64"]), "no signed token of a lock|not valid"),
        (signed(aud="https://other"), "for the audience"),
        (signed(aud=[AUDIENCE]), "for the audience"),
        (signed(aud=None), "for the audience"),
        (signed(lock="invoice:43"), "not for the lock"),
        (signed(token=7), "no valid token"),
        (signed(of("07")), "no valid token"),
        (signed(of("7\n")), "no valid token"),
        (signed(token=str(2**53)), "not possible"),
        (signed(floor="8"), "not possible"),
        (signed(id="A" * 32), "no valid id"),
        (signed(sub=["x"]), "lacks a field"),
        (made(now(iat=time.time() + 3_600)), "lacks a field"),
        (made(now(iat=int(time.time()) + 3_600)), "in the future"),
        (made([1]), "lacks a field"),
        (made("x"), "lacks a field"),
    ],
)
def test_what_is_not_right_is_refused(proofs: Proofs, forged: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        proofs.verify(forged, NAME)


def test_the_algorithm_is_not_the_tokens_choice(proofs: Proofs) -> None:
    body = part(now())
    nothing = f"{part({'alg': 'none', 'typ': TYPE, 'kid': KID})}.{body}.AA"
    begin = f"{part({'alg': 'HS256', 'typ': TYPE, 'kid': KID})}.{body}"
    secret = base64.urlsafe_b64decode(KEYS["keys"][0]["x"] + "=")  # which everybody knows
    tag = hmac.new(secret, begin.encode(), hashlib.sha256).digest()
    symmetric = f"{begin}.{base64.urlsafe_b64encode(tag).rstrip(b'=').decode()}"
    for forged in (nothing, symmetric):
        with pytest.raises(ValueError, match="no signed token of a lock"):
            proofs.verify(forged, NAME)


def test_contents_of_one_and_signature_of_another(proofs: Proofs) -> None:
    head, _, signature = signed().split(".")
    _, body, _ = signed(of("8")).split(".")
    with pytest.raises(ValueError, match="not valid"):
        proofs.verify(f"{head}.{body}.{signature}", NAME)


@pytest.mark.parametrize(
    "at",
    [
        AT._replace(token=8, floor=8),
        AT._replace(id="b" * 32),
        AT._replace(name="invoice:43"),
        AT._replace(floor=6, shared=True),
    ],
)
def test_a_request_with_other_values_than_its_proof_is_refused(proofs: Proofs, at: Shown) -> None:
    with pytest.raises(ValueError, match=r"another grant|not for the lock"):
        proofs.check(signed(), at)


# --- the door -------------------------------------------------------------------------------------


def looked(door: Door, value: str) -> Shown | None:
    return door.look("PUT", "/", [value], {})


def test_the_door_compares_nothing_that_is_not_proven(proofs: Proofs) -> None:
    marks: dict[str, Mark] = {}
    door = Door(lambda method, path: NAME, marks=marks, proofs=proofs)  # noqa: ARG005
    assert looked(door, header(AT, signed())) == AT
    for value in (
        header(AT),
        header(AT, signed(of("8"))),
        header(AT, "x"),
        header(AT, "a.b.c"),
    ):
        with pytest.raises(Refused) as caught:
            looked(door, value)
        assert caught.value.response.status == 403
        assert b"token-not-signed" in caught.value.response.body
    with pytest.raises(Refused) as caught:
        looked(door, header(AT) + ';signed="x";signed="y"')
    assert caught.value.response.status == 400
    assert not marks


# --- public keys ---------------------------------------------------------------------------------


@contextmanager
def published(content: list[bytes], made: Certificates | None = None) -> Iterator[str]:
    """Serve the last of these key sets. `made`: by TLS."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if content[-1].startswith(b"/"):
                self.send_response(302)
                self.send_header("Location", content[-1].decode())
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content[-1])

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if made is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(made.certificate_path, made.key_path)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http{'s' if made else ''}://127.0.0.1:{server.server_port}/jwks"
        server.shutdown()


def test_new_keys_are_loaded_while_the_old_ones_are_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loading, "LEAST", 0.0)
    content = [SIGNING.jwks]
    later = Signing(STRANGER)
    with published(content) as url:
        keys = PublicKeys(url)
        proofs = Proofs(keys, AUDIENCE)
        proofs.verify(signed(), NAME)
        content.append(Signing(PEM + STRANGER).jwks)
        new = later.sign(SAID)
        with pytest.raises(ValueError, match="a key that the service does not have"):
            proofs.verify(new, NAME)
        wait_until(lambda: len(keys._keys) == 2, "they are loaded")
        proofs.verify(new, NAME)
        proofs.verify(signed(), NAME)
        for wrong in (b"nonsense", b"x" * 70_000, b'{"keys": []}', b"/elsewhere"):
            content.append(wrong)
            assert keys.find("unknown") is None
            wait_until(lambda: not keys._loading, "it was tried")
            proofs.verify(new, NAME)


@pytest.mark.parametrize(
    "answer",
    [
        b"\x00\xff\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 404 \x1b[31m\r\n\r\n",
        b"",
    ],
    ids=["garbage", "chunk", "line", "lines", "status", "nothing"],
)
def test_an_answer_that_is_no_key_set_is_an_error(answer: bytes) -> None:
    with answering(answer) as url, pytest.raises(OSError, match=r"HTTP|status") as caught:
        PublicKeys(url)
    assert str(caught.value).isprintable()


def test_a_server_that_sends_a_byte_now_and_then_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loading, "TIMEOUT", 1.0)
    with answering(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300, pause=0.2) as url:
        began = time.monotonic()
        with pytest.raises((OSError, ValueError)):  # by where it was cut off
            PublicKeys(url)
        assert time.monotonic() - began < 30  # and not a minute


def test_the_certificate_of_the_service_is_verified(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = Certificates(tmp_path)
    with published([SIGNING.jwks], made) as url:
        with pytest.raises(OSError, match="certificate verify failed"):
            PublicKeys(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(made.ca_path))
        assert PublicKeys(url).find(KID) is not None


def test_no_proxy_is_asked_for_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without TLS, it could answer with keys of its own."""
    with published([SIGNING.jwks]) as url, published([Signing(STRANGER).jwks]) as proxy:
        for name in ("http_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.removesuffix("/jwks"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert PublicKeys(url).find(KID) is not None


@contextmanager
def answering(answer: bytes, pause: float = 0.0) -> Iterator[str]:
    """Answer each request with these bytes, or with one of them after each pause."""
    ended = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(4_096)
            pieces = [answer[i : i + 1] for i in range(len(answer))] if pause else [answer]
            with suppress(OSError):
                for piece in pieces:
                    self.request.sendall(piece)
                    if ended.wait(pause):
                        return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/jwks"
        ended.set()
        server.shutdown()


def test_they_are_loaded_again_from_time_to_time(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_bytes(Signing(PEM + STRANGER).jwks)
    keys = PublicKeys(path, refresh=0.0)
    path.write_bytes(SIGNING.jwks)
    removed = json.loads(Signing(STRANGER).jwks)["keys"][0]["kid"]
    assert keys.find(removed) is not None
    wait_until(lambda: keys.find(removed) is None, "it is removed")
    assert keys.find(KID) is not None


@pytest.mark.parametrize(
    "source",
    [
        {"keys": []},
        {"keys": "x"},
        {},
        {"keys": [{"kty": "oct", "k": "x", "kid": "x"}]},
        {"keys": [{**KEYS["keys"][0], "d": "x"}]},
        {"keys": KEYS["keys"] * 2},
        {"keys": [{**KEYS["keys"][0], "kid": 1}]},
        {"keys": [{**KEYS["keys"][0], "x": "é"}]},
        {"keys": KEYS["keys"] * 20},
        "http://locks.example.com/.well-known/jwks.json",
    ],
    ids=[
        "none",
        "text",
        "nothing",
        "secret",
        "private",
        "twice",
        "number",
        "letter",
        "many",
        "url",
    ],
)
def test_a_source_that_cannot_be_used_is_an_error(source: Any) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match="key"):
        PublicKeys(source)
