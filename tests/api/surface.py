"""The public API as lines of text: each name that the reference lists, with its signature.

A name stands on one line, so that a difference between two lists of lines can be read by people.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, ForwardRef

import typer.main
from hypothesis.stateful import RuleBasedStateMachine

import lockfast
from lockfast import aio
from lockfast.cli.app import app
from lockfast.core.record import FORMAT
from lockfast.engines.remote.messages import VERSION
from lockfast.port import PORT
from lockfast.testing import Contract
from tests.docs.docstrings import PAGES, Documented, named, public

INTERNAL = {"session", "lock", "election", "entry", "make"}
"""Parameters of classes that only lockfast makes. Readers get an object from a method."""
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
CONSTANTS = re.findall(r"\.\. autodata:: (\S+)", PAGES)
SIMPLE = (int, float, str, frozenset, type(None))


class Written(str):
    """An annotation, or a default, as the source writes it: without quotes around it."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the text itself."""
        return str(self)


def surface() -> list[str]:
    """Return one line for each public name, in order."""
    shown = public()
    kinds = {each.thing for each in shown.values() if inspect.isclass(each.thing)}
    lines = {line for each in shown.values() for line in _lines(each, kinds)}
    lines |= {line for name in CONSTANTS for line in _constant(name)}
    lines |= {
        f"class {name}"
        for name in re.findall(
            r"autoclass:: (lockfast\.integrations\.celery\.database\.\S+)", PAGES
        )
    }
    for module in (lockfast, aio):
        lines |= {f"from {module.__name__} import {name}" for name in module.__all__}
    return [*numbers(), *sorted(lines), *commands()]


def numbers() -> list[str]:
    """Return the numbers of what is stored and sent. Another one is another format."""
    return [f"stored format {FORMAT}", f"port {PORT}", f"messages of the service {VERSION}"]


def commands() -> Iterator[str]:
    """Yield each command with its arguments and options."""
    group = typer.main.get_command(app)
    yield from _options("lockfast", group.params)
    for name, command in sorted(group.commands.items()):  # type: ignore[attr-defined]  # a group
        yield from _options(f"lockfast {name}", command.params)


def _options(command: str, params: list[Any]) -> Iterator[str]:
    yield command
    for each in params:
        kind = f" {each.metavar or 'TEXT'}" if not getattr(each, "is_flag", False) else ""
        yield f"{command} {'/'.join([*each.opts, *each.secondary_opts])}{kind}"


def _lines(each: Documented, kinds: set[type]) -> Iterator[str]:
    thing = each.thing
    if not inspect.isclass(thing):
        yield f"{each.name}{_signature(thing)}"
        return
    bases = ", ".join(base.__name__ for base in thing.__bases__ if base in kinds)
    yield f"class {each.name}({bases})" if bases else f"class {each.name}"
    if issubclass(thing, (Contract, RuleBasedStateMachine)):
        return  # what they test can change: a contract is inherited from, and not called
    if issubclass(thing, Enum):
        yield from (f"{each.name}.{member}" for member in thing.__members__)
        return
    made = _signature(thing)
    # Nobody makes an object of a protocol.
    if not INTERNAL & set(re.findall(r"\w+", made)) and not getattr(thing, "_is_protocol", False):
        yield f"{each.name}{made}"
    yield from (f"{each.name}.{name}" for name in _attributes(thing))


def _attributes(owner: type) -> set[str]:
    """Return the public attributes and properties of a class, with their types if they have any."""
    found: dict[str, str] = {}
    for kind in owner.__mro__:
        if not kind.__module__.startswith("lockfast"):
            continue
        for name, value in vars(kind).items():
            if isinstance(value, property):
                returned = inspect.signature(value.fget or len).return_annotation
                found.setdefault(name, f": {_written(returned)}")
            elif inspect.isdatadescriptor(value):
                found.setdefault(name, "")
        for name, annotation in inspect.get_annotations(kind).items():
            found[name] = found.get(name) or f": {_written(annotation)}"
    return {f"{name}{kind}" for name, kind in found.items() if name[0] != "_"}


def _signature(thing: Callable[..., object]) -> str:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):  # some classes written in C have none
        return "(...)"
    parameters = [
        each.replace(annotation=_written(each.annotation), default=_default(each.default))
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    returned = signature.return_annotation
    if inspect.isclass(thing):
        returned = inspect.Signature.empty
    return str(signature.replace(parameters=parameters, return_annotation=_written(returned)))


def _written(annotation: object) -> object:
    if annotation is inspect.Parameter.empty:
        return annotation
    if isinstance(annotation, ForwardRef):
        annotation = annotation.__forward_arg__
    if not isinstance(annotation, str):
        annotation = inspect.formatannotation(annotation)
    return Written(annotation)


def _default(value: object) -> object:
    if value is inspect.Parameter.empty:
        return value
    if isinstance(value, Enum):
        return Written(f"{type(value).__name__}.{value.name}")
    return value if isinstance(value, SIMPLE) else Written(ADDRESS.sub("", repr(value)))


def _constant(name: str) -> Iterator[str]:
    value = named(name)
    if value is not None:
        yield f"{name} = {value!r}" if isinstance(value, SIMPLE) else name
