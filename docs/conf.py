"""Sphinx configuration."""

import pkgutil
import re
from collections.abc import Iterable, Iterator
from inspect import cleandoc, iscoroutinefunction
from pathlib import Path
from typing import Any, get_args, get_origin

import typer.main
from sphinx.application import Sphinx

from lockfast import __version__
from lockfast.cli.app import app as lockfast_command

project = "lockfast"
release = __version__
version = release
author = "The lockfast authors"
project_copyright = author

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
# A reference that leads nowhere is an error: `make docs` turns warnings into failures.
nitpicky = True
# But for types in signatures: those of other projects (their inventories would have to be fetched
# for every build), and our own that are not public.
nitpick_ignore_regex = [
    ("py:class", r"(?!lockfast\.).*"),
    ("py:class", r"lockfast\.(?!Client|Lease|Lock|aio|errors|guarantees).*"),
    ("py:class", r"lockfast\.aio\.(body|election|facade)\..*"),
    ("py:exc", r"(?!lockfast\.)\w+\..*"),
]
# In docstrings `x` is code, as it is in Markdown.
default_role = "code"
autodoc_member_order = "bysource"
# Its models cannot be imported outside of a Django project.
autodoc_mock_imports = ["django_celery_beat"]
autodoc_typehints_format = "short"
# Docstrings have the sections of Google's style, and no others.
napoleon_numpy_docstring = False
napoleon_use_ivar = True
# So that [text](page.md#section) links work.
myst_heading_anchors = 3

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["lockfast.css"]
html_js_files = [("narrow.js", {"defer": "defer"})]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_title = f"{project} {release}"
# Guides come before the reference, and a page before others if its title has the searched word.
html_search_scorer = str(Path(__file__).parent / "_static" / "search_scores.js")
# The button that shows a page's source would cover the titles of narrow screens.
html_theme_options = {
    "top_of_page_buttons": [],
    "dark_css_variables": {"color-code-background": "#1c1e22"},
}
html_copy_source = False
# Sphinx's default for dark screens underlines every module, as if it were a link.
pygments_dark_style = "github-dark"


def setup(app: Sphinx) -> None:
    """Show the types of each mode in signatures, and fill in the reference of the command line."""
    app.connect("autodoc-process-docstring", _keep, priority=400)
    app.connect("autodoc-process-docstring", _restore, priority=600)
    app.connect("autodoc-process-signature", _with_types)
    app.connect("source-read", _with_commands)


# napoleon takes what stands before a colon in the first line of an attribute's docstring for its
# type. These hooks, before and after napoleon, restore such a docstring.
_sentences: dict[str, list[str]] = {}


def _keep(*event: Any) -> None:  # noqa: ANN401  # Sphinx's
    _, what, name, thing, _, lines = event
    if lines and lines[0].startswith("Alias for field number"):  # Python's, of a named tuple
        lines.clear()
    elif what == "data" and lines[:1] == cleandoc(type(thing).__doc__ or "").split("\n")[:1]:
        lines.clear()  # of the type of a constant, such as float
    elif what in {"attribute", "data", "property"} and ": " in "".join(lines[:1]):
        _sentences[name] = lines.copy()


def _restore(*event: Any) -> None:  # noqa: ANN401  # Sphinx's
    lines = event[-1]
    lines[:] = _sentences.pop(event[2], lines)


# The first parameters of classes that only lockfast makes. Readers get one from a method.
_INTERNAL = re.compile(r"\((session|lock|election|entry|name: str, make)\b")


def _with_types(*event: Any) -> tuple[str | None, str | None] | None:  # noqa: ANN401  # Sphinx's
    """Replace the type variables of a shared method by the types of the class that it is shown for.

    Otherwise the reference would say that `Lock.acquire` returns `L`.
    """
    _, what, name, method, _, signature, returned = event
    signature = _public(signature)
    if what == "class" and _INTERNAL.match(signature or ""):
        return "", None
    owner = pkgutil.resolve_name(name.rpartition(".")[0]) if what == "method" else None
    if not isinstance(owner, type):
        return signature, returned
    types = _types(owner)

    def replaced(text: str | None) -> str | None:
        return text and re.sub(r"\b[A-Z]\w*\b", lambda word: types.get(word[0], word[0]), text)

    # `lockfast.aio.body.pending` makes a plain function of a coroutine function.
    waits = owner.__module__.startswith("lockfast.aio.") and not iscoroutinefunction(method)
    if waits and iscoroutinefunction(getattr(method, "__wrapped__", None)):
        returned = f"Awaitable[{returned}]"
    returned = returned and re.sub(r"[~\w.]*\bAcquiring\[", "Awaitable[", returned)
    return replaced(signature), replaced(returned)


_TIMEOUT = "float | None = ..."


def _public(signature: str | None) -> str | None:
    """Replace internal types in a signature by those that a reader passes."""
    if signature is None:
        return None
    signature = re.sub(r"float \| [~\w.]*\bDefault \| None = [\w.<]*OF_LOCK", _TIMEOUT, signature)
    return re.sub(r"[~\w.]*\bLeaseCore\b", "~lockfast.Lease | ~lockfast.aio.AsyncLease", signature)


def _types(owner: type) -> dict[str, str]:
    """Return the names of the types that a class puts in the place of each type variable."""
    found: dict[str, str] = {}
    for base in (base for kind in owner.__mro__ for base in getattr(kind, "__orig_bases__", ())):
        variables = getattr(get_origin(base), "__parameters__", ())
        for variable, given in zip(variables, get_args(base), strict=False):
            name = found.get(given.__name__, given.__name__)
            if variable.__name__ != name:
                found.setdefault(variable.__name__, name)
    return found


# The reference of the command line is made from the commands themselves, so that it lists all of
# them and every option.
_TABLE = "<!-- table of commands -->"
_COMMANDS = "<!-- every command -->"
_GLOBALS = "<!-- every global option -->"


def _with_commands(_: Sphinx, name: str, source: list[str]) -> None:
    if name == "reference/command-line":
        group = typer.main.get_command(lockfast_command)
        parts = [part for each in group.commands.values() for part in _command(each)]
        source[0] = source[0].replace(_COMMANDS, "\n\n".join(parts))
        source[0] = source[0].replace(_GLOBALS, _options(group.params))
        source[0] = source[0].replace(_TABLE, _table(group.commands.values()))


def _table(commands: Iterable[Any]) -> str:
    rows = (
        f"| [`{each.name}`](#{each.name}) | {' '.join(_summary(each).split())} |"
        for each in commands
    )
    return "\n".join(["| command | what it does |", "| --- | --- |", *rows])


def _summary(command: Any) -> str:  # noqa: ANN401  # Click's, or Typer's copy of it
    return cleandoc(command.callback.__doc__ or "").split("\n\n")[0]


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
    value = "" if option.is_flag else f" {option.metavar or 'TEXT'}"
    names = ", ".join(f"`{each}`" for each in [*option.opts[1:], f"{option.opts[0]}{value}"])
    default = f"`{option.default}`" if option.default else ""
    return f"| {names} | {option.help or ''} | {default} |"
