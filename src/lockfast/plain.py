"""Text from others, made harmless: for terminals, logs, exceptions and reports."""

from __future__ import annotations


def plain(text: str) -> str:
    """Write each character that does something instead of being seen as its escape sequence.

    Names, payloads and what servers answer may hold anything: a sequence that clears the screen
    or sets a title, a line break that forges a line of a log, a mark that turns the direction of
    writing. Plain text comes out as it was, and doing this twice changes nothing more.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )
