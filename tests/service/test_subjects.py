"""The tables of subjects, what `--check` says about them, and how usage is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lockfast.service.config import Config
from lockfast.service.config_file import read
from lockfast.service.credentials import load
from lockfast.service.keys import new_key, stored
from lockfast.service.rights import Limits
from lockfast.service.subjects import MOST, Subjects
from lockfast.service.usage import MANY, Bucket, Overrun, Usage, Usages
from tests.cli.run.test_serve_access import checked

KEY = stored("a", new_key())


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"a b": {}}, "'a b' is not a name"),
        ({"a": 5}, r"subjects.a must be a table: write \[subjects.a\]"),
        ({"a": {"claims": []}}, "subjects.a.'claims' is not known. It has keys"),
        ({"a": {"claim": "orders/"}}, "subjects.a.claim must be a list of texts"),
        ({"a": {"claim": [5]}}, "subjects.a.claim must be a list of texts"),
        ({"a": {"claim": ["x" * 513]}}, "0 to 512 bytes"),
        ({"a": {"claim": ["x"] * (MOST + 1)}}, "1001 entries"),
        ({"a": {"keys": [""]}}, "1 to 1024 bytes"),
        ({"a": {"max_ttl": 0}}, "subjects.a.max_ttl must be 0.05 to 86400 seconds"),
        ({"a": {"max_ttl": True}}, "subjects.a.max_ttl must be"),
        ({"a": {"max_ttl": float("nan")}}, "subjects.a.max_ttl must be"),
        ({"a": {"max_claims": 0}}, "subjects.a.max_claims must be a whole number of 1 or more"),
        ({"a": {"max_waiters": -1}}, "of 0 or more"),
        ({"a": {"max_requests": 1.5}}, "subjects.a.max_requests must be a whole number"),
        ({"a": {"max_bytes": 2**40}}, "subjects.a.max_bytes must be"),
        ({"a": {"keys": ["k"]}, "b": {"keys": ["k"]}}, "subjects.b.keys: 'k' is one of subjects.a"),
        ({"k": {}, "b": {"keys": ["k"]}}, "subjects.b.keys: 'k' is one of subjects.k"),
        ({f"s{n}": {} for n in range(MOST + 1)}, "there are 1001 subjects"),
    ],
)
def test_a_wrong_table_is_refused_and_the_entry_is_named(
    table: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        Subjects(table)


def test_a_subject_without_a_list_of_keys_has_the_key_of_its_name() -> None:
    found = Subjects({"a": {}, "b": {"keys": ["x", "y"]}, "c": {"tokens": ["t"]}})
    assert found.known("keys") == {"a", "x", "y"}
    rights = found.find("keys", ["none", "y"])
    assert rights is not None
    assert rights.subject == "b"
    assert not rights.may("claim", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[subjects.a]\nclaims = []", "subjects.a.'claims' is not known"),
        ("subjects = 5", "subjects must be a table"),
        ("[subjects.a]\nclaim = [", "it is not TOML"),
        ("[subjects.a]", "[subjects] needs a way to know them"),
        ("KEYS\n[jwt]", "jwt.issuer must be"),
        ("KEYS\n[jwt]\nissuer = 'x'\naudience = 'y'\nalgorithms = ['HS256']", "never accepted"),
        ("certificate_header = 'X'", "certificate_header needs uds"),
        ("uds = 's'\ncertificate_header = 'Host'", "'Host' cannot be the name"),
        ("uds = 's'\ncertificate_header = 'A B'", "cannot be the name"),
        ("uds = 's'\ncertificate_header = 'X-Cert'", "needs [subjects.NAME] with `certificates`"),
        ("uds = 's'\nuds_mode = '0666'", "of which the last one is 0"),
        (f"uds = '{'s' * 200}'", "at most 100 bytes"),
        ("audit_file = 'none/audit.jsonl'", "cannot be written: there is no folder"),
        ("keys_file = 'none.toml'", "keys_file, "),
        ("signing_key_file = 'none.pem'", "signing_key_file, "),
        ("handle_key_file = 'none.key'", "handle_key_file, "),
        ("KEYS\n[jwt]\njwks_file = 'https://x/jwks'", "must be a file: the service fetches"),
    ],
)  # fmt: skip
def test_check_names_what_is_wrong(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "lockfast.toml"
    filled = text.replace("KEYS", f"[keys]\n{KEY}")
    path.write_text(f'url = "memory://"\n{filled}\n', "utf-8")
    code, said = checked("--config", str(path))
    assert code == 78
    assert expected in said
    assert str(path) in said


def test_check_says_what_fits_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lockfast.toml"
    head = 'url = "memory://"\naudit_file = "audit.jsonl"'
    text = f'{head}\n[keys]\n{KEY}\n[subjects.b]\ntokens = ["x"]\n[subjects.c]\n'
    path.write_text(text, "utf-8")
    code, said = checked("--config", str(path))
    assert code == 0
    assert "the key a has no rights, and all its requests will be refused" in said
    assert "a subject has the key 'c', and there is no key with this name" in said
    assert "without [jwt] no token is accepted" in said
    assert not (tmp_path / "audit.jsonl").exists()


def test_an_empty_table_of_subjects_denies_everything(tmp_path: Path) -> None:
    path = tmp_path / "lockfast.toml"
    path.write_text(f"[keys]\n{KEY}\n[subjects]\n", "utf-8")
    found = load(Config(**read(str(path))))
    assert found.subjects is not None
    assert not len(found.subjects)
    path.write_text(f"[keys]\n{KEY}\n", "utf-8")
    assert load(Config(**read(str(path)))).subjects is None


def test_a_bucket_fills_at_its_rate() -> None:
    bucket = Bucket()
    assert [bucket.wait(1, 2, 0.0) for _ in range(2)] == [0.0, 0.0]
    assert bucket.wait(1, 2, 0.0) == pytest.approx(0.5)
    assert bucket.wait(1, 2, 0.4) > 0.0
    assert bucket.wait(1, 2, 0.5) == 0.0
    assert not bucket.full(2, 1.0)
    assert bucket.full(2, 1.6)


def test_a_request_for_more_than_a_second_holds_is_possible_and_is_paid_for() -> None:
    bucket = Bucket()
    assert bucket.wait(64, 10, 0.0) == 0.0
    assert bucket.wait(64, 10, 0.0) == pytest.approx(6.4)
    assert bucket.wait(64, 10, 6.3) > 0.0
    assert bucket.wait(64, 10, 6.4) == 0.0


def test_what_subjects_use_outlives_a_reload_and_is_bounded() -> None:
    now = [0.0]
    usages = Usages(lambda: now[0])
    one = usages.of("one", Limits(max_requests=1))
    one.request(1, 1, keeps=False)
    with pytest.raises(Overrun):
        usages.of("one", Limits(max_requests=1)).request(1, 1, keeps=False)
    one.request(1, 1, keeps=True)
    kept = usages.of("kept", Limits())
    kept.connections = 1
    for number in range(MANY):
        usages.of(str(number), Limits())
    assert usages.of("one", Limits(max_requests=1)) is one  # its bucket is not full
    now[0] = 2.0
    for number in range(MANY):
        usages.of(f"again {number}", Limits())
    assert usages.of("kept", Limits()) is kept
    assert usages.of("one", Limits()) is not one


def test_a_limit_that_was_changed_holds_at_once() -> None:
    usage = Usage("a", Limits(), lambda: 0.0)
    usage.claims = 5
    usage.require_room(queue=True)
    usage.limits = Limits(max_claims=5)
    with pytest.raises(Exception, match="limited to 5 locks at the same time in one replica"):
        usage.require_room(queue=False)
