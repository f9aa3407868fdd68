"""Sphinx configuration."""

import re
from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

import typer.main
from sphinx.application import Sphinx

from lockfast import __version__
from lockfast.cli.app import app as lockfast_command

project = "lockfast"
release = __version__
version = release
author = "The lockfast authors"
project_copyright = author

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
# A reference that leads nowhere is an error: `make docs` turns warnings into failures.
nitpicky = True
# But for types in signatures: those of other projects (their inventories would have to be fetched
# for every build), and our own that are not public.
nitpick_ignore_regex = [
    ("py:class", r"(?!lockfast\.).*"),
    ("py:class", r"lockfast\.(?!Client|Lease|Lock|aio|errors|guarantees).*"),
    ("py:class", r"lockfast\.aio\.(body|facade)\..*"),
]
# In docstrings `x` is code, as it is in Markdown.
default_role = "code"
autodoc_member_order = "bysource"
# Its models cannot be imported outside of a Django project.
autodoc_mock_imports = ["django_celery_beat"]
autodoc_typehints_format = "short"
# So that [text](page.md#section) links work.
myst_heading_anchors = 3

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["lockfast.css"]
html_title = f"{project} {release}"


def setup(app: Sphinx) -> None:
    """Show arguments in docstrings as a list, and fill in the reference of the command line."""
    app.connect("autodoc-process-docstring", _listed)
    app.connect("source-read", _with_commands)


def _listed(*args: object) -> None:
    lines = args[-1]
    assert isinstance(lines, list)  # noqa: S101  # what Sphinx hands over
    made: list[str] = []
    within = False
    for line in lines:
        starts = re.match(r"`[\w=]+`: ", line) is not None
        if starts and not within:
            made.append("")  # a list begins after a paragraph
        within = starts or (within and bool(line))
        made.append(("* " if starts else "  ") + line if within else line)
    lines[:] = made


# The reference of the command line is made from the commands themselves, so that it lists all of
# them and every option.
_COMMANDS = "<!-- every command -->"
_GLOBALS = "<!-- every global option -->"


def _with_commands(_: Sphinx, name: str, source: list[str]) -> None:
    if name == "reference/command-line":
        group = typer.main.get_command(lockfast_command)
        parts = [part for each in group.commands.values() for part in _command(each)]
        source[0] = source[0].replace(_COMMANDS, "\n\n".join(parts))
        source[0] = source[0].replace(_GLOBALS, _options(group.params))


def _command(command: Any) -> Iterator[str]:  # noqa: ANN401  # Click's, or Typer's copy of it
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    words = [f"lockfast {command.name}", *(each.metavar or each.name.upper() for each in arguments)]
    yield f"## {command.name}"
    yield f"```text\n{' '.join(words)}\n```"
    for paragraph in cleandoc(command.callback.__doc__ or "").split("\n\n"):
        head, *rest = paragraph.split("\n")
        if rest and rest[0].startswith("  "):
            yield f"**{head}**"
            yield "\n".join(["```text", *rest, "```"])
        else:
            yield paragraph
    options = [each for each in command.params if each not in arguments]
    if options:
        yield _options(options)


def _options(options: list[Any]) -> str:
    head = ["| option | what it does | default |", "| --- | --- | --- |"]
    return "\n".join([*head, *map(_row, options)])


def _row(option: Any) -> str:  # noqa: ANN401  # Click's, or Typer's copy of it
    value = f" {option.metavar}" if option.metavar else ""
    names = ", ".join(f"`{each}`" for each in [*option.opts[1:], f"{option.opts[0]}{value}"])
    default = f"`{option.default}`" if option.default else ""
    return f"| {names} | {option.help or ''} | {default} |"
