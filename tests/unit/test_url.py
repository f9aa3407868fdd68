"""URLs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import lockfast
from lockfast.errors import EngineUnavailable
from lockfast.url import parse


def test_hosts_credentials_path_and_options() -> None:
    target = parse("redis+sentinel://me:p%40ss@h1:1,h2,[::1]:3/main/2?db=4")
    assert target.scheme == "redis+sentinel"
    assert target.hosts == (("h1", 1), ("h2", None), ("::1", 3))
    assert (target.username, target.password) == ("me", "p@ss")
    assert (target.path, target.options) == ("/main/2", {"db": "4"})


@pytest.mark.parametrize("url", [None, ""])
def test_without_a_url_the_error_names_the_ways_to_give_one(
    url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOCKFAST_URL", "LOCKFAST_URL_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="no URL: pass one to connect"):
        lockfast.connect(url)


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(parse("redis://:secret@h"))


@pytest.mark.parametrize(
    "url",
    [
        "redis//:hunter2@host",
        ":hunter2@db.bank:6379",
        "redis://:hunter2/@host",
        "redis://:/hunter2@host",
        "redis://user:hunter2#w2@host",
        "redis://user:p#hunter2@host",
        "redis://user:hunter2?w2@host",
        "redis://user:12?hunter2@host",
        "redis://user:12#hunter2@host",
        "etcds://user:123/hunter2@host",
        "redis://app:12/hunter2@host:6379",
        "redis://app:hunter2@host:port",
        "redis://app:hunter2@host:65536",
        "redis://app:hunter2@[::1]:99999",
        "redlock://app:hunter2@h1:1,h2:0",
        "zookeeper://u:p@h?ssl_key_passwrd=hunter2",
        "postgresql://u@h/db?password=hunter2&sslmod=x",
        "postgresql://u:[hunter2@h/db",
        "postgresql://u:[hunter2]@h/db",
        "mysql://u:hunter2@h/db?ssl_mod=x",
        "mysql://u:hunter2@h/db?ssl_mode=verify",
        "mysql://u:hunter2@h/db/x",
        "mysql://u:hunter2@h/db?unix_socket=/s",
        "mariadb://:hunter2@h/db",
        "redis://:hunter2@h1,h2",
        "oracle://:hunter2@h",
    ],
)
def test_a_url_that_is_wrong_is_not_quoted(url: str) -> None:
    with pytest.raises(ValueError) as wrong:  # noqa: PT011  # each says something else
        lockfast.connect(url)
    told = "".join(traceback.format_exception(wrong.value)).partition("Traceback")[2]
    lines = [line for line in told.splitlines() if not line.startswith(" ")]  # no source
    assert "hunter2" not in str(wrong.value)
    assert not any("hunter2" in line for line in lines)


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://:secret@h/m?sentinel_password=secret",
        "postgresql://u@h/db?password=secret&listen=postgresql://u:secret@d/db",
    ],
)
def test_an_option_that_is_a_password_is_not_shown(url: str) -> None:
    assert "secret" not in repr(parse(url))


def test_the_url_can_be_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCKFAST_URL", raising=False)
    secret = tmp_path / "url"
    secret.write_text("redis://:secret@h:7\n", "utf-8")
    monkeypatch.setenv("LOCKFAST_URL_FILE", str(secret))
    assert (parse(None).hosts, parse(None).password) == ((("h", 7),), "secret")
    monkeypatch.setenv("LOCKFAST_URL", "memory://")
    assert parse(None).scheme == "memory"


def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOCKFAST_URL", raising=False)
    monkeypatch.setenv("LOCKFAST_URL_FILE", str(tmp_path / "none"))
    with pytest.raises(ValueError, match="none', cannot be read"):
        lockfast.connect()


def test_an_empty_password_file_is_named(tmp_path: Path) -> None:
    """It was taken for a wrong key, and a file that is being replaced has no contents at first."""
    path = tmp_path / "key"
    path.write_text("\n")
    secret = parse(f"redis://h?password_file={path}").secret()
    with pytest.raises(EngineUnavailable, match="key', is empty"):
        secret()
    path.write_text("x\n")
    assert secret() == "x"


def test_without_an_argument_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKFAST_URL", "memory://")
    with lockfast.connect() as client, client.lock("x") as lease:
        assert lease.token > 0


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "no URL"),
        ("localhost:6379", "not a URL"),
        ("redis://h:port", "the port after the : of a host is not"),
        ("redis://h:0", "port .* is not 1 to 65535"),
        ("redis://h:65536", "port .* is not 1 to 65535"),
        ("redlock://h1:6379,h2:99999,h3", "the port after the : of a host is not"),
        ("etcd://[::1]:70000", "the port after the : of a host is not"),
        ("postgresql://h:70000/db", "the port after the : of a host is not"),
        ("mysql://u@h:70000/db", "the port after the : of a host is not"),
        ("mysql://h/db", "mysql:// needs a user: mysql://USER@HOST"),
        ("mysql+pymysql://u@h/db", "names a driver.* write mysql://$"),
        ("mariadb+asyncmy://u@h/db", "names a driver.* write mariadb://$"),
        ("mariadb://u@h/a/b", "mariadb://HOST/DATABASE"),
        ("mysql://u@h/db?ssl_mode=on", "ssl_mode must be one of disabled, preferred"),
        ("mysql://u@h/db?unix_socket=/s", "a host and a unix_socket: remove one of them"),
        ("mysql://u@/db?unix_socket=s", "the whole path of a socket"),
        ("mysql://u@h/db?ssl_mode=disabled&ssl_ca=/x", "does not encrypt: remove ssl_ca"),
        ("zookeeper://h:00000", "the port after the : of a host is not"),
        ("redis://h?tll=3", "has no option tll"),
        ("redis://h1,h2", "redis\\+cluster"),
        ("redis+sentinel://h1", "name the primary"),
        ("redis+cluster://h1/3", "has no database '3'. It has only database 0$"),
        ("redis://h/x", "has no database 'x'. It has numbers as databases, such as 0$"),
        ("reddis://h", "^no engine for reddis://. Did you mean redis://\\?$"),
        ("postgre+asyncpg://h", "Did you mean postgres://\\?$"),
        ("redis://h?token_base=-1", "token_base"),
        (
            "oracle://h",
            "no engine for oracle.*redis://.*redis\\+sentinel:// and redis\\+cluster://$",
        ),
        ("memory://h?x=1", r"has no option x\. It has no options$"),
    ],
)
def test_what_is_wrong_is_said(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        lockfast.connect(url)


def test_what_may_be_a_part_of_a_password_is_not_quoted_as_an_option() -> None:
    with pytest.raises(ValueError, match=r"has no option \?, \?\. Its options are") as caught:
        lockfast.connect("redis://u:12?ss&word@host")
    assert "ss" not in str(caught.value).partition(". Its")[0]


@pytest.mark.parametrize(
    ("scheme", "secure"),
    [
        ("redis", "rediss"),
        ("valkey", "valkeys"),
        ("redis+sentinel", "rediss+sentinel"),
        ("redis+cluster", "rediss+cluster"),
        ("redlock", "redlocks"),
        ("etcd", "etcds"),
        ("lockfast", "lockfasts"),
    ],
)
def test_options_of_tls_are_refused_on_a_scheme_without_it(scheme: str, secure: str) -> None:
    said = f"ssl_ca_certs would have no effect: write {re.escape(secure)}://"
    with pytest.raises(ValueError, match=said):
        lockfast.connect(f"{scheme}://:secret@h/x?ssl_ca_certs=/nowhere")


REDIS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")


@pytest.mark.parametrize(
    ("scheme", "files"),
    [
        *((scheme, REDIS_FILES) for scheme in ("rediss", "rediss+cluster", "valkeys")),
        *((scheme, REDIS_FILES) for scheme in ("redlocks", "etcds", "lockfasts")),
        ("zookeeper", ("ssl_ca", "ssl_cert", "ssl_key")),
    ],
)
def test_a_file_for_tls_that_cannot_be_used_is_named_with_its_option(
    scheme: str, files: tuple[str, str, str], tmp_path: Path
) -> None:
    authority, cert, key = files
    none, text = tmp_path / "none.pem", tmp_path / "text.pem"
    text.write_text("hello", "utf-8")
    url = f"{scheme}://:hunter2@h"
    for asked, option, path, why in (
        (f"{authority}={none}", authority, none, "No such file"),
        (f"{cert}={none}&{key}={text}", cert, none, "No such file"),
        (f"{authority}={text}", authority, text, "PEM format"),
        (f"{cert}={text}&{key}={text}", cert, text, "PEM format"),
    ):
        with pytest.raises(ValueError, match=why) as wrong:
            lockfast.connect(f"{url}?{asked}")
        assert f"{option}, {str(path)!r}, " in str(wrong.value)
        assert "hunter2" not in str(wrong.value)


def test_a_key_with_a_password_is_refused_and_not_asked_for_at_the_terminal(tmp_path: Path) -> None:
    cert = tmp_path / "both.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-passout", "pass:hunter2"]
    files = ["-subj", "/CN=x", "-keyout", str(cert), "-out", str(tmp_path / "cert.pem")]
    subprocess.run([*made, *files], check=True, capture_output=True)
    cert.write_bytes(cert.read_bytes() + (tmp_path / "cert.pem").read_bytes())
    asked = f"rediss://h?ssl_certfile={cert}"
    code = f"import lockfast; lockfast.connect({asked!r})"
    read, write = os.pipe()  # nobody ever types anything here
    try:
        ran = subprocess.run(
            [sys.executable, "-c", code],
            stdin=read,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            start_new_session=True,
        )
    finally:
        os.close(read)
        os.close(write)
    assert "ValueError: ssl_certfile" in ran.stderr
    lockfast.connect(f"zookeeper://h?ssl_cert={cert}&ssl_key_password=hunter2").close()


@pytest.mark.parametrize("scheme", ["rediss", "redlocks"])
def test_of_a_certificate_and_its_key_the_missing_one_is_named(scheme: str, tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert.write_text("-----BEGIN CERTIFICATE-----", "utf-8")
    with pytest.raises(ValueError, match=f"ssl_keyfile, {str(key)!r}, cannot be read: No such"):
        lockfast.connect(f"{scheme}://h?ssl_certfile={cert}&ssl_keyfile={key}")
