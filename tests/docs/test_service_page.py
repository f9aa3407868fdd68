"""The page of the service: lists lead to it, and it has every option of the URL."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from jwt.algorithms import RSAAlgorithm

from lockfast.engines import ENGINES
from lockfast.engines.remote.url import OPTIONS, PORT
from lockfast.service.config import Config
from lockfast.service.config_file import TYPES
from lockfast.service.config_file import read as read_config
from lockfast.service.credentials import load
from lockfast.service.keys import new_key, stored
from lockfast.service.rights import LIMITS, VERBS
from lockfast.service.subjects import WHO
from lockfast.service.tokens import ENTRIES
from lockfast.url import SECURE
from tests.docs.page import ROOT, read
from tests.docs.test_engine_lists import SERVICE
from tests.docs.test_engine_pages import ROW

PATH = ROOT / "docs" / "service" / "index.md"
PAGE = PATH.read_text("utf-8")
REFERENCE = (ROOT / "docs" / "reference" / "engines.md").read_text("utf-8")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
SCHEMES = [scheme for scheme, module in ENGINES.items() if module == SERVICE]


def requirements(extra: str) -> set[str]:
    return {re.split("[<>=]", each)[0] for each in EXTRAS[extra]}


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ("README.md", "(docs/service/index.md)"),
        ("docs/index.md", "(service/index.md)"),
        ("docs/index.md", "\nservice/index\n"),
        ("docs/engines/index.md", "(../service/index.md)"),
        ("docs/explanation/index.md", "\nservice-wire\n"),
        ("docs/glossary.md", "(service/index.md)"),
        ("docs/reference/engines.md", "(../service/index.md#urls)"),
    ],
)
def test_the_lists_of_pages_lead_to_the_service(page: str, link: str) -> None:
    assert link in (ROOT / page).read_text("utf-8")


def test_the_page_describes_the_schemes_and_each_option_of_the_url() -> None:
    assert sorted(SCHEMES) == ["lockfast", SECURE["lockfast"]]
    urls = PAGE.partition("\n## URLs\n")[2].partition("\n## ")[0]
    for scheme in SCHEMES:
        assert f"`{scheme}://" in urls
        assert f"`{scheme}://" in REFERENCE
    assert str(PORT) in urls
    found = ROW.search(urls)
    assert found is not None
    assert re.findall(r"^\| `(\w+)`", found[1], re.MULTILINE) == list(OPTIONS)


def test_the_example_needs_no_more_than_the_page_installs() -> None:
    named = {name for each in read(PATH).packages for name in re.findall(r"\w+", each)}
    assert {"cli", "redis", "service"} <= named
    # Who runs the service has its client, too.
    assert requirements(SERVICE) < requirements("service")


@pytest.mark.parametrize("extra", [SERVICE, "service"])
def test_the_list_of_extras_has_those_of_the_service(extra: str) -> None:
    rows = re.findall(r"^\|.*\| `(\w+)` \|", REFERENCE, re.MULTILINE)
    assert extra in rows


def test_the_page_says_first_who_needs_it() -> None:
    titles = re.findall("^## (.*)$", PAGE, re.MULTILINE)
    assert titles[0] == "Do you need it?"


SECURITY = PATH.with_name("security.md").read_text("utf-8")


def rows(section: str) -> list[str]:
    """Return what the tables of a section describe."""
    text = SECURITY.partition(f" {section}\n\n")[2]
    return re.findall(r"^\| `(\w+)` \|", re.split("^##", text, flags=re.MULTILINE)[0], re.MULTILINE)


def test_the_page_of_security_describes_rights_and_limits() -> None:
    assert rows("Rights") == [*WHO, *VERBS]
    assert rows("Limits") == list(LIMITS)
    assert rows("Tokens of an identity provider") == list(ENTRIES)


BLOCKS = [
    block
    for block in re.findall(r"^```toml\n(.*?)^```", SECURITY, re.DOTALL | re.MULTILINE)
    if "[" in block
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split()[0])
def test_each_snippet_of_the_configuration_can_be_used(block: str, tmp_path: Path) -> None:
    key = RSAAlgorithm.to_jwk(generate_private_key(65_537, 2_048).public_key(), as_dict=True)
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [{**key, "kid": "1"}]}), "utf-8")
    path = tmp_path / "lockfast.toml"
    lists = " ".join(re.findall(r"^keys = \[(.*)\]", block, re.MULTILINE))
    names = set(re.findall(r"[\w-]+", lists))
    lines = "".join(f"{stored(name, new_key())}\n" for name in sorted(names))
    path.write_text(block + (f"[keys]\n{lines}" if names else ""), "utf-8")
    found = load(Config(**read_config(str(path))))
    assert not found.risks
    assert found.subjects


def test_the_snippet_of_tokens_is_for_the_installed_extra() -> None:
    assert len(BLOCKS) == 3
    assert "`jwt`" in SECURITY
    assert "jwt" in EXTRAS


def test_the_page_of_security_describes_every_entry_of_the_configuration() -> None:
    assert rows("The configuration file") == list(TYPES)
