"""Escaping of text from other processes, for terminals, logs, exceptions and reports."""

from __future__ import annotations


def plain(text: str) -> str:
    """Return `text` with each unprintable character replaced by its escape sequence.

    Names, payloads and replies of servers can contain anything: a sequence that clears the screen
    or sets a title, a line break that forges a log line, a character that reverses the direction
    of the text. Printable text is returned unchanged, and a second call changes nothing more.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
