"""Text from an evidence record, made fit for a sentence.

Evidence may come from anywhere: its strings may hold line breaks, control characters, halves of
surrogate pairs that no file can store, or be very long.
"""

from __future__ import annotations


def clipped(text: str, most: int = 300) -> str:
    """The text on one line, printable and at most `most` characters long."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return printable if len(printable) <= most else printable[: most - 3] + "..."
