"""The package index shows the README outside of the repository: every link there is absolute."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message

import pytest

from release.registry_page import absolute, badged, urls
from tests.docs.page import ROOT

README = (ROOT / "README.md").read_text("utf-8")
HERE = "https://code.example/somebody/lockfast"
TARGETS = re.compile(r'\]\(([^)\s]+)\)|src="([^"]+)"')


def targets(text: str) -> list[str]:
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return ["".join(found) for found in TARGETS.findall(outside)]


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir")
    subprocess.run([*build, folder, ROOT], check=True, capture_output=True, timeout=100)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith("/METADATA")]
        return message_from_bytes(archive.read(name))


def test_the_page_of_the_wheel_has_no_relative_link(metadata: Message) -> None:
    shown = metadata.get_payload()
    assert isinstance(shown, str)
    assert "## Take a lock" in shown
    assert [each for each in targets(shown) if not each.startswith("https://")] == []


def test_the_urls_of_the_wheel_are_those_of_the_repository(metadata: Message) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    repository = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]
    listed = [f"{name}, {url}" for name, url in urls(repository).items()]
    assert (metadata.get_all("Project-URL") or []) == listed
    assert metadata.get_all("Dynamic") is None


def test_with_an_address_each_link_leads_to_a_file_of_this_version() -> None:
    before, after = targets(README), targets(absolute(README, HERE, "1.2.3"))
    assert len(before) == len(after) > 50
    for old, new in zip(before, after, strict=True):
        if old.startswith("https://"):
            assert new == old
            continue
        kind, file = re.fullmatch(rf"{HERE}/(blob|raw)/v1\.2\.3/([^#]+)(?:#.*)?", new).groups()  # type: ignore[union-attr]  # a failure, too
        assert (ROOT / file).is_file()
        assert (kind == "raw") == file.endswith((".svg", ".png"))


def test_the_badge_is_that_of_a_workflow_of_the_repository() -> None:
    shown = badged(absolute(README, HERE, "1.2.3"), HERE)
    title, badge, rest = re.split(r"\n\n", shown, maxsplit=2)
    assert title.startswith("# ")
    workflow = f"{HERE}/actions/workflows/ci.yml"
    assert badge == f"[![CI]({workflow}/badge.svg?branch=main)]({workflow})"
    assert (ROOT / ".github" / "workflows" / "ci.yml").is_file()
    assert rest.startswith("Distributed locks")
    assert badged(README, "") == README


def test_code_is_not_changed() -> None:
    code = "```python\nfirst[0](second)\n```"
    assert absolute(code, HERE, "1.2.3") == code


def test_without_an_address_the_text_of_a_link_stays() -> None:
    text = '# <img src="docs/logo.svg" width="36"> lockfast\n[a page](docs/a.md), ![b](b.svg).'
    assert absolute(text, "", "1.2.3") == "# lockfast\na page, b."
