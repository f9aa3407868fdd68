"""The project's page on the package index: its links, and the README with absolute links.

The index shows the README without the repository around it, so a relative link or picture leads
nowhere there. hatchling runs this when it builds: see `[tool.hatch.metadata.hooks.custom]`. Before
the repository has an address, the page has the text of the links, and no pictures.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^]]*)\]\((?P<target>[^)\s]+)\)")
IMAGE = re.compile(r'<img src="(?P<target>[^"]+)"[^>]*> ?')
ABSOLUTE = re.compile(r"[a-z]+:")


class RegistryPage(MetadataHookInterface):
    """What pyproject.toml leaves open: the readme and the urls."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set both, by the address of the repository."""
        repository = self.config["repository"]
        readme = (Path(self.root) / "README.md").read_text("utf-8")
        text = badged(absolute(readme, repository, metadata["version"]), repository)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = urls(repository)


def urls(repository: str) -> dict[str, str]:
    """Return the links beside the page, or none without an address."""
    if not repository:
        return {}
    return {
        "Repository": repository,
        "Documentation": f"{repository}/blob/main/docs/index.md",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
        "Security": f"{repository}/security/policy",
    }


def badged(readme: str, repository: str) -> str:
    """Show below the title whether CI passes: it is true wherever the repository is.

    The README in the repository has none, because it does not know the address. The index itself
    shows the version, the Pythons and the license.
    """
    if not repository:
        return readme
    workflow = f"{repository}/actions/workflows/ci.yml"
    title, rest = readme.split("\n", 1)
    return f"{title}\n\n[![CI]({workflow}/badge.svg?branch=main)]({workflow})\n{rest}"


def absolute(readme: str, repository: str, version: str) -> str:
    """Replace the relative links of the README by links to the files of this version."""
    parts = FENCED.split(readme)
    parts[::2] = (_absolute(part, repository, version) for part in parts[::2])
    return "".join(parts)


def _absolute(text: str, repository: str, version: str) -> str:
    def at(target: str, kind: str) -> str:
        file = "README.md" if target.startswith("#") else ""
        return f"{repository}/{kind}/v{version}/{file}{target}"

    def link(found: re.Match[str]) -> str:
        if ABSOLUTE.match(found["target"]):
            return found[0]
        if not repository:
            return found["text"]
        kind = "raw" if found["picture"] else "blob"
        return f"{found['picture']}[{found['text']}]({at(found['target'], kind)})"

    def image(found: re.Match[str]) -> str:
        if ABSOLUTE.match(found["target"]):
            return found[0]
        return found[0].replace(found["target"], at(found["target"], "raw")) if repository else ""

    return LINK.sub(link, IMAGE.sub(image, text))
