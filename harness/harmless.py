# SPDX-License-Identifier: MIT
"""Text of others on a terminal: what would steer the terminal is shown, not sent. Standard library only."""

from __future__ import annotations

import unicodedata

#: Line ends and tabs of our own layout.
_LAYOUT = frozenset("\n\t")


def harmless(text: str) -> str:
    """`text` with every character that is none to see as its code: \\x1b, \\x9b, \\u202e.

    These are controls (C0, DEL, C1), what turns the direction of writing or has no width, half surrogate pairs, and
    what Unicode does not define. Line ends and tabs stay.
    """
    if text.isprintable() or _ruled(text):
        return text
    return "".join(char if _is_seen(char) else _code(char) for char in text)


def _ruled(text: str) -> bool:
    """Whether nothing but line ends is in the way: pages of our own are long, and are looked at at once."""
    return text.replace("\n", " ").isprintable()


def _is_seen(char: str) -> bool:
    return char in _LAYOUT or char.isprintable() or unicodedata.category(char) == "Zs"


def _code(char: str) -> str:
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
