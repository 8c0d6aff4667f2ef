# SPDX-License-Identifier: MIT
"""Text for others: folders of this host by names that say what they are, not where, or whose."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

from harness.artefacts.store import Store
from harness.errors import UsageError
from harness.paths import ROOT
from harness.scratch import PREFIX

#: Variables that decide where the folders are.
DECIDING = ("HOME", "KREPRO_STORE", "XDG_CACHE_HOME")
#: What is left of an absolute path in a command line that lies in none of the known folders: its last name.
_ELSEWHERE = re.compile(r"(^|=)/(?:[^/=]*/)*([^/=]*)")


def neutral(text: str) -> str:
    """`text` with the folders of this host as $SCRATCH, $STORE, $PROJECT, $TMP and ~, a scratch folder first."""
    if "/" not in text:
        return text
    for pattern, name in _patterns(tempfile.gettempdir(), *(os.environ.get(name) for name in DECIDING)):
        text = pattern.sub(name, text)
    return text


@lru_cache(maxsize=8)
def _patterns(temporary: str, *_deciding: str | None) -> list[tuple[re.Pattern[str], str]]:
    """What is replaced, in this order: a large set's manifest has millions of words, and the folders stay the same."""
    scratch = re.compile(rf"{re.escape(temporary)}/{re.escape(PREFIX)}[a-z]+-\w+")
    folders = [
        (re.compile(rf"(?<![\w.~-]){re.escape(folder)}(?![\w.-])"), name) for folder, name in _folders(temporary)
    ]
    return [(scratch, "$SCRATCH"), *folders]


def neutral_words(words: Sequence[str]) -> list[str]:
    """A command line; of paths elsewhere the last name is left."""
    return [_ELSEWHERE.sub(r"\1…/\2", neutral(word)) for word in words]


def _folders(temporary: str) -> list[tuple[str, str]]:
    """Folder and name, those within others first."""
    known = [(str(ROOT), "$PROJECT"), (temporary, "$TMP"), (os.path.expanduser("~"), "~")]  # noqa: PTH111
    with suppress(UsageError):
        known.append((str(Store.default().root), "$STORE"))
    there = [(os.path.realpath(folder), name) for folder, name in known if folder.startswith("/")]
    return sorted({*known, *there} - {("/", "~")}, key=lambda pair: -len(pair[0]))
