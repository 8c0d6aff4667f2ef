# SPDX-License-Identifier: MIT
"""A bpftrace script as bpftrace itself compiles it: its programs and maps, without running it.

bpftrace parses and compiles; nothing of it is attached (`-d`, `--emit-elf`). It is root's tool and reads the trace
points of the running kernel, so it runs where those are mounted: in a mount namespace of its own, if they are not.

Read are the outputs of 0.17 (Debian 12) and 0.23 (Debian 13). The older one writes programs alone, in sections with the
probes' names, and its maps are in what it says. The newer one writes an object as libbpf reads it; of the probes
its sections have but words, so they are found in order, by the script's own list.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from harness.errors import RunError, UsageError
from harness.program.probenames import split_probe
from harness.program.scripts import bpfobject
from harness.program.scripts.asked import Asked

TRACEFS = Path("/sys/kernel/tracing")
COMPILE_S = 60.0
INSTALL = "install it: apt install bpftrace"
#: Its older versions mount nothing themselves and look below debugfs too.
_MOUNT = (
    "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; "
    'mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null; exec "$@"'
)
#: Since then `-d` is told which stage to print, and the object is one for libbpf.
STAGES = (0, 21)
_SECTION = re.compile(r"s_(.+)_\d+")
#: What the symbol of a map of the script's begins with.
_NAMED = "AT_"
_MAP = re.compile(r"map: (@\w*) :: type\[([\w ]+)")
#: In its intermediate code: the number of a map that a call is about, and what its key is made of.
_NUMBER = re.compile(r"%(pseudo\d*) = (?:tail )?call i64 @llvm\.bpf\.pseudo\(i64 1, i64 (\d+)\)")
_KEY = re.compile(r"\(i64 %(pseudo\d*), (?:\[(\d+) x i(\d+)\]|i(\d+))\*")
#: The call of bpf_get_stackid, with the number of the map that its stacks are in: one for each depth.
_STACKS = re.compile(r"inttoptr \(i64 27 to [^%]*%\w+, i64 %(pseudo\d*)")
_WARNING = re.compile(r"WARNING|RLIMIT_MEMLOCK|traceable functions")
#: What is kept for each CPU by itself; all else is in a plain hash map.
PER_CPU = ("count", "sum", "min", "max", "avg", "stats", "hist", "lhist")
STACKS, EVENTS = "stack", "perf"
_LONG = 8
#: Maps that bpftrace makes for itself, by number: kind, bytes of a key, and what of a script they are for.
_OWN_MAPS = (("array", 4, re.compile(r"call: join\b")), ("hash", _LONG, re.compile(r"builtin: elapsed\b")))


@dataclass(frozen=True)
class Compiled:
    """A script: `programs` by probe in its order, with their instructions' bytes; `maps` in the order of their numbers,
    each with what kind it is and the bytes of its key.
    """

    version: str
    programs: tuple[tuple[str, bytes], ...]
    maps: tuple[tuple[str, str, int], ...]
    unpriced: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def probes(self) -> list[str]:
        return [one for probe, _ in self.programs for one in split(probe)]

    def as_data(self) -> dict[str, Any]:
        """In JSON, for an experiment's hook `predict`."""
        return {
            "tool": self.version,
            "programs": [{"probe": ",".join(split(probe)), "code": code.hex()} for probe, code in self.programs],
            "maps": [{"name": name, "kind": kind, "key": key} for name, kind, key in self.maps],
            "unpriced": [{"probe": probe, "why": why} for probe, why in self.unpriced],
            "notes": self.notes,
        }


def split(probes: str) -> list[str]:
    """The probes of a program, each with its kind in the long form."""
    return [":".join(filter(None, split_probe(probe.strip()))) for probe in probes.split(",") if probe.strip()]


def find() -> str:
    """The host's bpftrace. UsageError where it has none, or this is not root, whose tool it is."""
    found = shutil.which("bpftrace")
    if found is None:
        raise UsageError("a script of bpftrace's is compiled by bpftrace, which is not here", hint=INSTALL)
    if os.geteuid():
        raise UsageError("bpftrace compiles for root alone, even where nothing is run", hint="run it as root")
    return found


def compiled(script: str, name: str = "the script") -> Compiled:
    """Compile a script's text. UsageError with bpftrace's own first line where it refuses it."""
    program = find()
    with tempfile.TemporaryDirectory(prefix="krepro-bpftrace-") as scratch:
        source, elf = Path(scratch) / "script.bt", Path(scratch) / "script.elf"
        source.write_text(script)
        version = _run([program, "--version"], name).strip()
        stages = tuple(int(number) for number in re.findall(r"\d+", version)[:2]) >= STAGES
        emit = ["--emit-elf", str(elf), str(source)]
        if stages:  # told to print all of them, it goes on to load the programs
            said = _run([program, "-d", "ast", *emit], name)
        else:
            said = _run([program, "-d", str(source)], name)
            _run([program, *emit], name)
        try:
            made = (_of_object if stages else _of_sections)(ELFFile(BytesIO(elf.read_bytes())), said, version)
        except (OSError, ELFError, ValueError, LookupError) as error:
            raise RunError(f"bpftrace wrote no object of {name}: {error}") from error
    if not made.programs:
        raise UsageError(f"bpftrace made no program of {name}")
    return made


def among_trace_points(argv: list[str]) -> list[str]:
    """The words that run a command where the kernel's trace points are seen: mounted for it alone, if they are not."""
    if (TRACEFS / "events").is_dir():
        return argv
    return ["unshare", "--mount", "sh", "-c", _MOUNT, "sh", *argv]


def _run(argv: list[str], name: str) -> str:
    try:
        done = subprocess.run(
            among_trace_points(argv), capture_output=True, text=True, errors="replace", check=False, timeout=COMPILE_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"bpftrace did not compile {name}: {error}") from error
    said = [line for line in done.stderr.splitlines() if line.strip() and not _WARNING.search(line)]
    refused = next((line for line in said if "ERROR" in line or "error:" in line), None)
    if done.returncode or refused:
        raise UsageError(f"bpftrace refuses {name}: {refused or ' '.join(said[:1]) or f'exit code {done.returncode}'}")
    return done.stdout + done.stderr


def _of_sections(elf: ELFFile, said: str, version: str) -> Compiled:
    """What bpftrace before STAGES has made."""
    found = [(_SECTION.fullmatch(section.name), section.data()) for section in elf.iter_sections()]
    return Compiled(version, tuple((match[1], code) for match, code in found if match and code), _maps(said))


def _of_object(elf: ELFFile, said: str, version: str) -> Compiled:
    """What a bpftrace with STAGES has made."""
    asked = Asked(version)
    sections = [(_SECTION.fullmatch(section), code) for section, _, code in bpfobject.contents(elf, asked)]
    programs, absent = attached(_probes(said), [(match[1], code) for match, code in sections if match])
    maps = [
        ("@" + name.removeprefix(_NAMED) if name.startswith(_NAMED) else "", kind, key)
        for name, kind, key in asked.maps
    ]
    why = "nothing on this host has such a name, so bpftrace made no program of it"
    notes = [one.replace(_NAMED, "@") for one in asked.notes if _NAMED in one]
    return Compiled(version, tuple(programs), tuple(maps), [(probe, why) for probe in absent], notes)


def _probes(said: str) -> list[str]:
    """The script's probes, by the tree of its text."""
    tree = said.partition("AST after: parser")[2].partition("AST after:")[0]
    return [line[1:] for line in tree.splitlines() if re.match(r" \S", line) and line != " config"]


def attached(probes: Sequence[str], sections: Sequence[tuple[str, bytes]]) -> tuple[list[tuple[str, bytes]], list[str]]:
    """Each probe with the code of its section, and those without one.

    A section's name has the probe's with _ for what is no letter. Sections come in the order of the script's probes. A
    pattern has one for each place that it means on this host, all with the same code.
    """
    left = list(sections)
    programs, absent = [], []
    for probe in probes:
        pattern = re.compile("".join(r"\w*" if one == "*" else re.sub(r"\W", "_", one) for one in probe))
        own: list[bytes] = []
        while left and pattern.fullmatch(left[0][0]) and ("*" in probe or not own):
            own.append(left.pop(0)[1])
        if own:
            programs.append((probe, own[0]))
        else:
            absent.append(probe)
    if left:
        raise ValueError(f"its program {left[0][0]} is of no probe of the script")
    return programs, absent


def _maps(said: str) -> tuple[tuple[str, str, int], ...]:
    """bpftrace 0.17 numbers maps by name, then those of stacks, of `join`, of `elapsed`, and of events."""
    kinds = {name: kind for name, kind in _MAP.findall(said) if kind != "none"}
    keys: dict[int, int] = {}
    numbers: dict[str, str] = {}
    stacks = set()
    for line in said.splitlines():
        numbers |= dict(_NUMBER.findall(line))
        for pseudo, number, bits, plain in _KEY.findall(line):
            if pseudo in numbers:
                keys[int(numbers[pseudo])] = int(number) * int(bits) // 8 if number else int(plain) // 8
        stacks |= {numbers[pseudo] for pseudo in _STACKS.findall(line)}
    maps = [
        (name, "percpu" if kind in PER_CPU else "hash", keys.get(number, _LONG))
        for number, (name, kind) in enumerate(sorted(kinds.items()))
    ]
    maps += [("", STACKS, 4)] * len(stacks)
    maps += [("", kind, key) for kind, key, used in _OWN_MAPS if used.search(said)]
    return (*maps, ("", EVENTS, 4))
