"""`lockfast serve` with a configuration file, keys and TLS, and `lockfast new-key`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import lockfast
from lockfast.errors import EngineRefused
from lockfast.service.keys import stored
from tests.cli.run.program import ROOT, Program, run
from tests.cli.run.test_serve import NOWHERE, served
from tests.servers import Redis, free_port
from tests.servers.certificates import Certificates


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


def new_key(name: str) -> tuple[str, str]:
    """Return a key, and its line."""
    code, out, said = run(NOWHERE, "new-key", name, "--json")
    assert code == 0, said
    told = json.loads(out)
    assert told["name"] == name
    return told["key"], told["line"]


def checked(*args: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Run `serve --check` without a URL on the command line."""
    done = subprocess.run(
        [sys.executable, "-m", "lockfast.cli", "serve", "--check", *args],
        cwd=ROOT,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("LOCKFAST")},
            **(env or {}),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_new_key_prints_a_key_and_a_line_that_does_not_contain_it() -> None:
    code, out, _ = run(NOWHERE, "new-key", "billing")
    assert code == 0
    first, second = out.splitlines()
    key = first.rpartition(" ")[2]
    assert key.startswith("lockfast_")
    assert "shown only now" in first
    assert second.endswith('"')
    assert 'billing = "sha256:' in second
    assert key not in second


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "\x1b[2J"])
def test_new_key_refuses_a_name_that_could_forge_a_line(name: str) -> None:
    code, out, said = run(NOWHERE, "new-key", name)
    assert code == 64
    assert out == ""
    assert "letters, digits" in said
    assert said.count("\n") == 1


def test_everything_from_one_file_until_a_hang_up_removes_the_key(
    files: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    key, line = new_key("billing")
    other, other_line = new_key("reports")
    (tmp_path / "keys.toml").write_text(f"{line}\n", "utf-8")
    with Redis() as redis:
        (tmp_path / "url").write_text(f"{redis.url}\n", "utf-8")
        config = tmp_path / "lockfast.toml"
        config.write_text(
            f'url_file = "url"\nhost = "0.0.0.0"\nport = {port}\nkeys_file = "keys.toml"\n'
            f'ssl_certfile = "{files.certificate_path}"\nssl_keyfile = "{files.key_path}"\n',
            "utf-8",
        )
        code, said = checked("--config", str(config))
        assert (code, said) == (0, "lockfast: the configuration can be used\n")
        at = f"127.0.0.1:{port}?ssl_ca_certs={files.ca_path}"
        # The URL of the file wins over the one for clients.
        monkeypatch.setenv("LOCKFAST_URL", NOWHERE)
        with Program(None, "serve", "--config", str(config)) as program:
            program.says("to every program that has an API key. ")
            program.says(f"Connect with LOCKFAST_URL=lockfasts://:KEY@HOST:{port}")
            with lockfast.connect(f"lockfasts://:{key}@{at}") as client:
                with client.lock("x", timeout=10):
                    pass
                (tmp_path / "keys.toml").write_text("nonsense", "utf-8")
                program.send(signal.SIGHUP)
                program.says("the configuration was not reloaded, and the old one stays: ")
                with client.lock("y", timeout=10):
                    pass
                (tmp_path / "keys.toml").write_text(f"{other_line}\n", "utf-8")
                program.send(signal.SIGHUP)
                program.says("the configuration was reloaded. API keys: 1, connections ended: 1")
                with pytest.raises(EngineRefused, match="rejects the API key"):
                    client.lock("z").try_acquire()
            url = f"lockfasts://:{other}@{at}"
            with lockfast.connect(url) as client, client.lock("z", timeout=10):
                pass
            program.send(signal.SIGTERM)
            assert program.wait() == 0
            for secret in (key, other):
                assert secret not in program.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no engine"),
        ('url = "oracle://x"', "oracle"),
        ('url = "redis://h"\nhosts = "h"', "'hosts' is not known. The entries are url, "),
        ('url = "redis://h"\nport = "1"', "port must be a number"),
        ('url = "redis://h"\nport = true', "port must be a number"),
        ('url = "redis://h"\nport = 0', "port must be 1 to 65535"),
        ('url = "redis://h"\nbehind_proxy = 1', "behind_proxy must be true or false"),
        ('url = "redis://h"\nkeys = []', "keys must be a table"),
        ('url = "redis://h"\n[keys]\na = 1', "64 hexadecimal digits"),
        ('url = "redis://h"\n[keys]\n"a\\r\\nb" = "x"', "is not the name of a key"),
        ('url = "redis://h"\nurl_file = "x"', "remove one of them"),
        ('url_file = "no-such-file"', "No such file"),
        ('url = "redis://h"\nhost = "0.0.0.0"', "needs TLS "),
        ('url = "redis://h"\nssl_certfile = "no-such-file"', "No such file"),
        ('url = "redis://h"\nssl_keyfile = "no-such-file"', "ssl_keyfile needs ssl_certfile"),
        ('url = "redis://h"\nkeys_file = "lockfast.toml"', "64 hexadecimal digits"),
        ("nonsense", "is not TOML"),
        ("a = " + "[" * 100_000, "is not TOML"),
        ("#" * 300_000, "more than 262144 bytes"),
    ],
)
def test_a_mistake_in_the_file_is_found_with_its_place(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "lockfast.toml"
    path.write_text(text, "utf-8")
    code, said = checked("--config", str(path))
    assert code == 78, said
    assert why in said
    assert said.count("\n") == 1, said


def test_a_missing_file_and_one_that_is_no_text_are_found(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "none", "No such file"), (tmp_path, "Is a directory")):
        code, said = checked("--config", str(path))
        assert code == 78
        assert why in said
    path = tmp_path / "bytes"
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in checked("--config", str(path))[1]


def test_a_certificate_with_another_key_is_found(files: Certificates, tmp_path: Path) -> None:
    other = Certificates(tmp_path)
    code, said = checked(
        *("--ssl-certfile", str(files.certificate_path), "--ssl-keyfile", str(other.key_path)),
        NOWHERE,
    )
    assert code == 78
    assert "KEY_VALUES_MISMATCH" in said


def test_options_win_over_the_file_and_the_file_over_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "lockfast.toml"
    path.write_text('url = "redis://127.0.0.1:2"\nport = 1\n', "utf-8")
    port = free_port()
    with served("redis://127.0.0.1:3", "--config", str(path), port=port) as program:
        program.says(f"serving redis://127.0.0.1:3 at 127.0.0.1:{port}")
    code, said = checked("--config", str(path), env={"LOCKFAST_URL": "oracle://x"})
    assert code == 0, said


def test_a_port_that_is_in_use_does_not_disturb_a_check() -> None:
    port = free_port()
    with served(NOWHERE, port=port):
        assert checked(NOWHERE, "--port", str(port))[0] == 0


def test_new_key_writes_a_new_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    path = tmp_path / "billing.key"
    code, out, _ = run(NOWHERE, "new-key", "billing", "--out", str(path))
    assert code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    key = path.read_text("utf-8").strip()
    assert out == f"{stored('billing', key)}\n"
    code, out, said = run(NOWHERE, "new-key", "billing", "--out", str(path))
    assert (code, out) == (78, "")
    assert "exists, and is not replaced" in said
    assert path.read_text("utf-8").strip() == key
