"""Words of the command line that may be left out, which Invoke does not know: its positional words are all required.

Standard library only: `inv` imports this before the virtual environment exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: Task to the option that its first word stands for.
OPTIONAL: Mapping[str, str] = {"report": "--result"}


def spelled_out(arguments: Sequence[str]) -> list[str]:
    """`report ID …` as `report --result ID …`; everything else as it is."""
    words = list(arguments)
    place = next((at for at, word in enumerate(words) if not word.startswith("-")), len(words))
    option = OPTIONAL.get(words[place]) if place < len(words) else None
    if option is not None and place + 1 < len(words) and not words[place + 1].startswith("-"):
        words.insert(place + 1, option)
    return words
