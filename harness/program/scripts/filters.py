# SPDX-License-Identifier: MIT
"""Filters of trace events (Documentation/trace/events.rst): how many terms they have, and what their first is on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.errors import UsageError

_TOKEN = re.compile(
    r"\s*(?:(?P<text>\"[^\"]*\"|'[^']*')|(?P<logic>&&|\|\||!(?!=))|(?P<open>\()|(?P<close>\))"
    r"|(?P<compare>==|!=|<=|>=|[<>~&])|(?P<word>[\w.$%*?-]+(?:\{[^}]*\})?))"
)


@dataclass(frozen=True)
class Filter:
    """`terms` comparisons, that all (`&&`) or one (`||`) must hold; `characters` of the text that the first is on."""

    terms: int
    either: bool = False
    characters: int | None = None
    notes: tuple[str, ...] = ()

    def as_data(self) -> dict[str, int]:
        data = {"terms": self.terms}
        if self.either and self.terms > 1:
            data |= {"terms_if_true": 1, "terms_if_false": self.terms}
        return data | ({"characters": self.characters} if self.characters is not None else {})


def filter_of(text: str) -> Filter:
    """Of its text. UsageError where that is none."""
    kinds: list[tuple[str, str]] = []
    at, depth = 0, 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise UsageError(f"is no filter of an event: {text[at:].strip()[:20]!r} is not read", where=text)
        depth += {"open": 1, "close": -1}.get(match.lastgroup, 0)
        kinds.append((match.lastgroup, match.group(match.lastgroup)))
        at = match.end()
        if depth < 0:
            break
    values = [_value(kinds, place) for place, (kind, _) in enumerate(kinds) if kind == "compare"]
    logic = {word for kind, word in kinds if kind == "logic"} - {"!"}
    joints = sum(kind == "logic" and word != "!" for kind, word in kinds)
    if depth or not values or None in values or joints != len(values) - 1:
        hint = "FIELD OPERATOR VALUE, with && and || between"
        raise UsageError("is no filter of an event", where=text, hint=hint)
    notes = []
    if len(logic) > 1:
        notes.append("its filter has && and ||: priced as if all terms were looked at when it is true, else one")
    texts = [value for value in values if value and value[0] in "\"'"]
    first = values[0] or ""
    if len(texts) > (first in texts):
        notes.append("a later term on a string is priced as one on a number")
    on_text = first[:1] in ('"', "'")
    if on_text:
        notes.append("of a filter's string as many characters are taken to be compared as it has")
    return Filter(len(values), logic == {"||"}, len(first) - 1 if on_text else None, tuple(notes))


def _value(kinds: list[tuple[str, str]], place: int) -> str | None:
    """What is compared there; None where a side lacks."""
    sides = kinds[place - 1 : place] + kinds[place + 1 : place + 2]
    if len(sides) < 2 or sides[0][0] != "word" or sides[1][0] not in ("word", "text"):
        return None
    return sides[1][1]
