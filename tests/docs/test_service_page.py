"""The page of the service: lists lead to it, and it has every option of the URL."""

from __future__ import annotations

import re
import tomllib

import pytest

from lockfast.engines import ENGINES
from lockfast.engines.remote.url import OPTIONS, PORT
from lockfast.service.config_file import TYPES
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


def test_the_page_of_security_describes_every_entry_of_the_configuration() -> None:
    page = PATH.with_name("security.md").read_text("utf-8")
    table = page.partition("| entry |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(TYPES)
