"""JSON Web Tokens: which are accepted, and when their connections end."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from websockets.exceptions import ConnectionClosed

import lockfast
from lockfast.claims import payload
from lockfast.engines.remote.messages import Inspect, Page
from lockfast.errors import EngineRefused
from lockfast.service import tokens
from lockfast.service.tokens import Tokens
from tests.servers import Redis
from tests.service.http.site import Site
from tests.service.served import SOON, Served, bearer
from tests.service.test_rights import why

RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
STRANGER = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
PRIVATE: dict[str, Any] = {"RS256": RSA, "ES256": EC, "EdDSA": ED}
ISSUER, AUDIENCE = "https://issuer.example", "lockfast"


def public(algorithm: str, key: Any, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a key as a set of keys has it."""
    made = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    return {**made, "kid": algorithm, "use": "sig", **more}


KEYS = [public(name, key) for name, key in PRIVATE.items()]
CONFIG = """
[jwt]
jwks_file = "jwks.json"
issuer = "https://issuer.example"
audience = "lockfast"
algorithms = ["RS256", "ES256", "EdDSA"]
leeway = 1

[subjects.billing]
tokens = ["billing@example.com"]
claim = ["orders/"]
inspect = ["orders/"]
"""


def said(**more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the claims of a token that is valid. None leaves one out."""
    now = int(time.time())
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "billing@example.com",
        "exp": now + 60,
        "nbf": now - 1,
        **more,
    }
    return {key: value for key, value in claims.items() if value is not None}


def token(algorithm: str = "RS256", key: Any = None, kid: str | None = "", **more: Any) -> str:  # noqa: ANN401
    """Return a token."""
    headers = {} if kid is None else {"kid": kid or algorithm}
    return jwt.encode(said(**more), key or PRIVATE[algorithm], algorithm, headers)


def forged(header: dict[str, Any], key: bytes) -> str:
    """Return a token with an HMAC, and any header. PyJWT would not sign with a public key."""

    def encoded(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    parts = b".".join(encoded(json.dumps(each).encode()) for each in (header, said()))
    signature = hmac.new(key, parts, hashlib.sha256).digest() if key else b"none"
    return (parts + b"." + encoded(signature)).decode()


def keys_file(folder: Path, *keys: dict[str, Any]) -> None:
    (folder / "jwks.json").write_text(json.dumps({"keys": list(keys)}), "utf-8")


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with Redis() as found:
        yield found


@pytest.fixture(scope="module")
def served(redis: Redis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("tokens")
    keys_file(folder, *KEYS)
    with Served(folder, redis.url, CONFIG) as found:
        yield found


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_a_valid_token_has_the_rights_of_its_subject(served: Served, algorithm: str) -> None:
    with served.voice(bearer(token(algorithm))) as voice:
        asked = voice.new(f"orders/{algorithm}")
        assert voice.claim(asked).results[0] is not None
        assert "'billing' may not claim" in why(voice.claim(voice.new("x")))
        page: Page = voice.call(Inspect(0, asked.name, exact=True))
        assert payload.read(page.entries[0].payload).subject == "billing"


def pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


WRONG: dict[str, tuple[Any, int]] = {
    "expired": (lambda: token(exp=int(time.time()) - 5), 401),
    "not yet valid": (lambda: token(nbf=int(time.time()) + 60), 401),
    "another audience": (lambda: token(aud="other"), 401),
    "no audience": (lambda: token(aud=None), 401),
    "another issuer": (lambda: token(iss="https://evil.example"), 401),
    "no issuer": (lambda: token(iss=None), 401),
    "no end": (lambda: token(exp=None), 401),
    "an end that is no number": (lambda: token(exp="soon"), 401),
    "an infinite end": (lambda: token(exp=float("inf")), 401),
    "no subject": (lambda: token(sub=None), 401),
    "a subject that is too long": (lambda: token(sub="x" * 257), 401),
    "a subject without rights": (lambda: token(sub="stranger@example.com"), 403),
    "a subject with the name of a table": (lambda: token(sub="billing"), 403),
    "an unknown kid": (lambda: token(kid="other"), 401),
    "no kid": (lambda: token(kid=None), 401),
    "another key": (lambda: token(key=STRANGER), 401),
    "another algorithm of the same key": (
        lambda: jwt.encode(said(), RSA, "RS512", {"kid": "RS256"}),
        401,
    ),
    "the key of another algorithm": (lambda: token("ES256", kid="RS256"), 401),
    "none": (lambda: forged({"alg": "none", "kid": "RS256"}, b""), 401),
    "HS256 with the public key": (
        lambda: forged({"alg": "HS256", "kid": "RS256"}, pem(RSA)),
        401,
    ),
    "HS256 that says RS256": (lambda: forged({"alg": "RS256", "kid": "RS256"}, pem(RSA)), 401),
    "a list as kid": (lambda: forged({"alg": "RS256", "kid": ["RS256"]}, pem(RSA)), 401),
    "a critical header": (
        lambda: jwt.encode(said(), RSA, "RS256", {"kid": "RS256", "crit": ["b64"]}),
        401,
    ),
    "too long": (lambda: token(more="x" * 5_200), 401),
    "a changed signature": (lambda: token()[:-6] + "AAAAAA", 401),
    "no signature": (lambda: token().rpartition(".")[0] + ".", 401),
    "nonsense": (lambda: "a.b.c", 401),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_token_does_not_get_in(served: Served, case: str) -> None:
    made, status = WRONG[case]
    assert served.status(bearer(made())) == status
    site = Site(served.port, made())
    for refused in (site.get("/v1/guarantees"), site.acquire("orders/wrong", key="k")):
        assert refused.status == status
        assert set(refused.body) == {"error", "message"}


def test_the_token_that_is_too_long_is_one_that_a_header_can_have() -> None:
    assert tokens.LONGEST < len(WRONG["too long"][0]()) < 8_000


def test_only_one_token_is_shown(served: Served) -> None:
    assert served.status([*bearer(token()), *bearer(token())]) == 401
    assert served.status() == 401
    assert served.status(bearer(token())) == 101


def test_the_connection_ends_with_the_token(served: Served) -> None:
    with served.voice(bearer(token(exp=int(time.time()) + 2))) as voice:
        began = time.monotonic()
        with pytest.raises(ConnectionClosed) as closed:
            voice.socket.recv(SOON)
        assert 1.5 < time.monotonic() - began < 4.5  # with the leeway of a second
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, "expired" in closed.value.rcvd.reason) == (1008, True)


def test_our_client_shows_the_next_token_and_keeps_its_lock(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token(exp=int(time.time()) + 2), "utf-8")
    url = f"lockfast://127.0.0.1:{served.port}?password_file={file}"
    with lockfast.connect(url) as client, client.lock("orders/long", ttl=3.0) as lease:
        file.write_text(token(), "utf-8")
        time.sleep(5.0)
        lease.ensure_held()
    file.write_text(token(exp=1), "utf-8")
    with (
        lockfast.connect(url) as client,
        pytest.raises(EngineRefused, match="rejects the API key or token"),
    ):
        client.lock("orders/late").acquire(timeout=2.0)


def test_a_reload_takes_new_keys_and_ends_what_the_old_ones_signed(
    redis: Redis, tmp_path: Path
) -> None:
    keys_file(tmp_path, *KEYS)
    with (
        Served(tmp_path, redis.url, CONFIG) as served,
        served.voice(bearer(token("RS256"))) as old,
        served.voice(bearer(token("ES256"))) as kept,
    ):
        new = {**public("RS256", STRANGER), "kid": "next"}
        keys_file(tmp_path, KEYS[1], new)
        assert served.status(bearer(token(key=STRANGER, kid="next"))) == 401
        served.reload(CONFIG)
        assert served.status(bearer(token(key=STRANGER, kid="next"))) == 101
        with pytest.raises(ConnectionClosed):
            old.socket.recv(SOON)
        assert served.status(bearer(token("RS256"))) == 401
        assert kept.claim(kept.new("orders/kept")).results[0] is not None
        (tmp_path / "jwks.json").write_text("nonsense")
        served.reload(CONFIG, "the old one stays")
        assert served.status(bearer(token("ES256"))) == 101


def test_rights_can_come_with_another_claim_of_the_token(redis: Redis, tmp_path: Path) -> None:
    keys_file(tmp_path, *KEYS)
    config = CONFIG.replace("leeway = 1", 'subject_claim = "groups"').replace(
        "billing@example.com", "finance"
    )
    with Served(tmp_path, redis.url, config) as served:
        assert served.status(bearer(token())) == 403
        assert served.status(bearer(token(groups="other"))) == 403
        assert served.status(bearer(token(groups={"finance": 1}))) == 403
        with served.voice(bearer(token(sub="alice", groups=["x", 5, "finance"]))) as voice:
            asked = voice.new("orders/group")
            voice.claim(asked)
            page: Page = voice.call(Inspect(0, asked.name, exact=True))
            assert payload.read(page.entries[0].payload).subject == "billing:alice"


ENTRIES = {"issuer": ISSUER, "audience": AUDIENCE, "algorithms": ["RS256"]}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"algorithms": ["none"]}, "never accepted"),
        ({"algorithms": ["HS256"]}, "never accepted"),
        ({"algorithms": []}, "jwt.algorithms must be"),
        ({"issuer": ""}, "jwt.issuer must be"),
        ({"audience": None}, "jwt.audience must be"),
        ({"leeway": 301}, "jwt.leeway must be 0 to 300"),
        ({"leeway": True}, "jwt.leeway must be"),
        ({"aud": "x"}, "jwt.aud is not known"),
        ({"jwks_file": "none.json"}, "none.json' cannot be read: No such file"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, more: dict[str, object], expected: str) -> None:
    keys_file(tmp_path, *KEYS)
    with pytest.raises(ValueError, match=expected):
        Tokens({**ENTRIES, "jwks_file": str(tmp_path / "jwks.json"), **more})


WEAK = rsa.generate_private_key(public_exponent=65_537, key_size=1_024)  # noqa: S505  # refused
P384 = ec.generate_private_key(ec.SECP384R1())


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([], "1 to 100 keys"),
        ([public("RS256", RSA)] * 101, "1 to 100 keys"),
        ([5], "is not an object"),
        ([public("RS256", RSA)] * 2, "two keys have the kid 'RS256'"),
        ([public("RS256", RSA, kid=None)], "has no kid"),
        ([public("RS256", RSA, d="x")], "is a secret key"),
        ([{"kty": "oct", "k": "x", "kid": "x"}], "is a secret key"),
        ([public("RS256", RSA, n="")], "cannot be used"),
        ([public("RS256", WEAK)], "1024 bits"),
        ([public("RS256", RSA, use="enc")], "has no key for RS256"),
        ([public("RS256", RSA, alg="PS256")], "has no key for RS256"),
        ([public("EdDSA", ED)], "has no key for RS256"),
    ],
)
def test_a_file_of_keys_that_is_wrong_is_refused(
    tmp_path: Path, keys: list[Any], expected: str
) -> None:
    keys_file(tmp_path, *keys)
    with pytest.raises(ValueError, match=expected) as refused:
        Tokens({**ENTRIES, "jwks_file": str(tmp_path / "jwks.json")})
    assert "jwks.json" in str(refused.value)


def test_es256_needs_its_own_curve(tmp_path: Path) -> None:
    made = jwt.get_algorithm_by_name("ES384").to_jwk(P384.public_key(), as_dict=True)
    keys_file(tmp_path, {**made, "kid": "x"})
    with pytest.raises(ValueError, match=r"jwks\.json.*P-256|jwks\.json.*cannot be used"):
        Tokens({**ENTRIES, "algorithms": ["ES256"], "jwks_file": str(tmp_path / "jwks.json")})
