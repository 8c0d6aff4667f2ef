# SPDX-License-Identifier: MIT
"""What `perf probe` defines: events of one's own at functions of the kernel, or of a program's file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from getopt import GetoptError, gnu_getopt
from pathlib import Path

from harness.errors import UsageError
from harness.program.scripts.fetched import Fields, Place, fields_of

_LONG = ("add=", "exec=", "module=", "vmlinux=", "source=", "dry-run", "force", "quiet", "verbose", "no-inlines",
         "max-probes=", "target-ns=", "cache", "bootconfig")  # fmt: skip
#: What newer versions of perf end the names of returns with; older ones end them with nothing.
RETURNS = "__return"
_DEFINITION = re.compile(
    r"(?:(?:(?P<group>\w+):)?(?P<event>\w+)=)?(?P<function>[\w.$*?]+)(?:@[\w./+-]+)?"
    r"(?:(?P<line>:\d+|;.+)|\+(?P<offset>0x[0-9a-fA-F]+|\d+)|(?P<returns>%return))?"
)
_SOURCE = re.compile(r"(?:(?:(?P<group>\w+):)?(?P<event>\w+)=)?(?P<place>[\w./+-]+\.\w+[:;].+)")


def read(words: Sequence[str]) -> dict[tuple[str, str], Place]:
    """Places by group and name of the event. UsageError for what perf would not take."""
    try:
        found, rest = gnu_getopt(list(words), "a:x:m:k:s:nfqv", list(_LONG))
    except GetoptError as error:
        raise UsageError(f"perf probe: {error}", hint="perf probe [-x FILE] 'FUNCTION ARGUMENT…'") from error
    file = next((value for option, value in reversed(found) if option in ("-x", "--exec")), None)
    definitions = [value for option, value in found if option in ("-a", "--add")]
    if rest:
        definitions.append(" ".join(rest))
    if not definitions:
        raise UsageError("perf probe: defines nothing", hint="perf probe 'vfs_read count=%dx'")
    return dict(_defined(text, file) for text in definitions)


def _defined(text: str, file: str | None) -> tuple[tuple[str, str], Place]:
    """The event's group and name, as newer versions of perf give them, and its place."""
    point, *arguments = text.split() or [""]
    match = _DEFINITION.fullmatch(point)
    if match is None:
        source = _SOURCE.fullmatch(point)
        if source is None:
            hint = "[[GROUP:]EVENT=]FUNCTION[+OFFSET|%return] [ARGUMENT…]"
            raise UsageError("perf probe: is no definition of a probe", where=text, hint=hint)
        name = source.group("event") or re.split(r"[.:;]", Path(source.group("place")).name)[0]
        place = Place(point, Fields(), "a line of the source: which place it has, debug info alone says")
        return (source.group("group") or _group(file), name), place
    function, returns = match.group("function"), bool(match.group("returns"))
    kind = f"{'u' if file else 'k'}{'ret' if returns else ''}probe"
    offset = match.group("offset")
    rest = f"{function}+{int(offset, 0)}" if offset and int(offset, 0) else function
    probe = f"{kind}:{file}:{rest}" if file else f"{kind}:{rest}"
    why = None
    if match.group("line"):
        why = "a line of a function: which place it has, debug info alone says"
    place = Place(probe, fields_of(arguments, variables=True), why)
    group = match.group("group") or _group(file)
    name = match.group("event") or f"{function.lstrip('.').partition('.')[0]}{RETURNS if returns else ''}"
    return (group, name), place


def _group(file: str | None) -> str:
    return "probe" if file is None else f"probe_{re.split('[-._]', Path(file).name)[0]}"
