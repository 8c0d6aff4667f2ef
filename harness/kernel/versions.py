# SPDX-License-Identifier: MIT
"""The same kernel in another version: its name, and which spec it is made by.

`modern-6.1-bare` in version 7.3 is `modern-7.3-bare`, `classic` is `classic-7.3`. No file says so: the spec is that of
the kernel that is called the same but for the version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

VERSION = re.compile(r"-(\d+\.\d+)(?=-|$)")
WORD = re.compile(r"\d+\.\d+")
SOURCE = "linux-source-"


def is_version(text: str) -> bool:
    """Whether a word where kernels are named is a version of all of them."""
    return WORD.fullmatch(text) is not None


def version_in(name: str) -> str | None:
    """The version in a kernel's name."""
    found = VERSION.search(name)
    return found[1] if found else None


def in_version(name: str, version: str) -> str:
    """The name of kernel `name` in this version; of what is not built here, the name itself."""
    if ":" in name or "/" in name:
        return name
    return VERSION.sub(f"-{version}", name, count=1) if version_in(name) else f"{name}-{version}"


def written_for(name: str, known: Iterable[str]) -> str | None:
    """Which of the `known` specs says how kernel `name` is made in the version that its name has; None: no one."""
    if version_in(name) is None:
        return None
    bare = VERSION.sub("", name, count=1)
    return next((one for one in known if VERSION.sub("", one, count=1) == bare), None)
