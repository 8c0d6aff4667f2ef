# SPDX-License-Identifier: MIT
"""Debian's own tools of bpftrace's, priced before they run and measured in a guest then; one table of both.

`--update` writes TABLE; without it a test says that it is still so. The model is that of the kernel:

    ./inv calibrate --kernel debian:6.12 --out model.json
    KREPRO_TOOLS_MODEL=model.json .venv/bin/python -m pytest tests/guest/test_bpftrace_tools.py --update

Those are of this host's bpftrace. `KREPRO_BPFTRACE_ROOT` is a folder in which another Debian's is unpacked, with all
that it depends on (`dpkg -x` of each package); that one compiles then, and runs in the guest. The table has both.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from harness.analysis.contained import Contained
from harness.artefacts.store import Store
from harness.errors import UsageError
from harness.paths import EXPERIMENTS, ROOT
from harness.program import bpftrace
from harness.program.firings import count_in_guest
from harness.program.ownmodules import BUSYBOX
from harness.program.prescript import ALL_CALLS
from harness.program.subject import TraceRequest
from tests.compiling import run
from tests.newcomer import inv

TABLE = ROOT / "docs/figures/bpftrace-tools.csv"
MIX = Path(__file__).parent / "tools/mix.c"
KERNEL, ROUNDS = "debian:6.12", 200
TOOLS = (
    *("opensnoop", "execsnoop", "statsnoop", "killsnoop", "syncsnoop", "setuids", "capable"),
    *("vfsstat", "vfscount", "syscount", "pidpersec", "dcsnoop", "biolatency", "runqlat"),
)
#: Of fewer firings the cost is no more than what two runs differ by.
LEAST = 100
#: What has no price of any tool: it runs once, or in bpftrace itself.
OWN = re.compile("not in the sum: (BEGIN|END|interval)")
#: A tool that traces nothing: what the program takes below bpftrace.
NOTHING = "END { }"
#: bpftrace finds trace points below debugfs, where the kernel mounts tracefs.
GUEST = BUSYBOX + " mount -t debugfs debugfs /sys/kernel/debug; exec {bpftrace} -c './mix {rounds}' {script} >/dev/null"
#: Starts the bpftrace of another Debian, by the loader and the libraries of that.
WRAPPER = """\
#!/bin/sh
exec {folder}/lib/{loader} --library-path {folder}/lib {folder}/lib/bpftrace "$@"
"""

there = pytest.mark.skipif(
    bool(os.geteuid())
    or (shutil.which("bpftrace") is None and "KREPRO_BPFTRACE_ROOT" not in os.environ)
    or "KREPRO_TOOLS_MODEL" not in os.environ,
    reason="needs root, bpftrace, and a model of the kernel (see above)",
)


@dataclass(frozen=True)
class Debian:
    """One Debian's bpftrace: the folder of its tools, its program in a guest, and what `--in` brings there."""

    tools: Path
    program: str
    brings: str
    version: str

    def text_of(self, tool: str) -> str:
        return (self.tools / f"{tool}.bt").read_text()

    def scripts(self) -> Iterator[tuple[str, bpftrace.Compiled | str]]:
        for tool in TOOLS:
            try:
                yield tool, bpftrace.compiled(self.text_of(tool), tool)
            except UsageError as error:
                yield tool, error.message.partition(": ")[2]


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Debian:
    root = os.environ.get("KREPRO_BPFTRACE_ROOT")
    tools, program, brings = Path("/usr/sbin"), "bpftrace", "/usr/bin/bpftrace"
    if root is not None:
        folder = another(Path(root), tmp_path / "another")
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
        tools, program, brings = Path(root, "usr/sbin"), f"{folder}/bpftrace", f"{folder},/bin/sh"
    told = subprocess.run([bpftrace.find(), "--version"], capture_output=True, text=True, check=True)
    return Debian(tools, program, brings, told.stdout.split()[-1])


def another(root: Path, folder: Path) -> Path:
    """A folder with the bpftrace that is unpacked in `root`, its libraries, and a script that starts it."""
    libraries = root / "usr/lib/x86_64-linux-gnu"
    loader = libraries / "ld-linux-x86-64.so.2"
    listed = run(loader, "--library-path", libraries, "--list", root / "usr/bin/bpftrace")
    (folder / "lib").mkdir(parents=True)
    for path in (loader, root / "usr/bin/bpftrace", *map(Path, re.findall(rf"=> ({libraries}\S+)", listed))):
        shutil.copy(path, folder / "lib")
    (folder / "bpftrace").write_text(WRAPPER.format(folder=folder, loader=loader.name))
    (folder / "bpftrace").chmod(0o755)
    return folder


def prices(folder: Path, made: dict[str, bpftrace.Compiled]) -> dict[str, tuple[list[str], dict[str, float]]]:
    """Of each tool what `predict` says, and the firings; all probes are counted in one run of the program."""
    request = TraceRequest(traces="functions", program=f"./mix {ROUNDS}", kernel=KERNEL, here=folder)
    every = [probe for one in made.values() for probe in one.probes()]
    counted = count_in_guest(Store.default(), request, [*every, ALL_CALLS], Console(stderr=True))
    also: dict[str, Any] = {
        "seconds": counted.seconds, "cpus": 1, "syscalls": counted.firings[ALL_CALLS], "firings": counted.firings,
        "absent": counted.absent, "base": counted.base, "counted_on": counted.kernel,
    }  # fmt: skip
    model = json.loads(Path(os.environ["KREPRO_TOOLS_MODEL"]).read_text())
    found = {}
    for tool, one in made.items():
        file = folder / f"{tool}.json"
        file.write_text(json.dumps(one.as_data() | also))
        with Contained(EXPERIMENTS / "probe-cost", file) as analysis:
            try:
                lines = analysis.predict(model, file)[1]
            except UsageError as error:
                lines = [error.message]
        found[tool] = lines, {probe: counted.firings.get(probe, 0.0) for probe in one.probes()}
    return found


def takes(debian: Debian, folder: Path, script: str) -> tuple[int, int] | str:
    """Instructions of the program's own threads below bpftrace, in user code and in the kernel; or why it never ran.

    Those of its rounds, and with what its start takes: bpftrace's memory is the program's until its exec, and to give
    that back takes the longer the more bpftrace has compiled.
    """
    (folder / "script.bt").write_text(script)
    own = [_own(debian, folder, rounds) for rounds in (0, ROUNDS)]
    if isinstance(own[0], str) or isinstance(own[1], str):
        return next(one for one in own if isinstance(one, str))
    return own[1] - own[0], own[1]


def _own(debian: Debian, folder: Path, rounds: int) -> int | str:
    words = GUEST.format(bpftrace=debian.program, rounds=rounds, script="script.bt")
    out = folder / f"out{len(list(folder.iterdir()))}"
    needs = f"{debian.brings},./mix,./script.bt,/bin/sh"
    options = ["--kernel", KERNEL, "--in", needs, "--to", "json", "--out", str(out)]
    done = inv(folder, "profile", *options, "--", "/bin/sh", "-c", words)
    assert done.returncode == 0, done.stderr
    threads = pd.DataFrame(json.loads(done.stdout)["threads"])
    own = int(threads.loc[threads["name"] == "./mix", "instructions"].sum())
    return own or f"in the guest: {(out / 'stderr').read_text().strip().splitlines()[-1]}"


@there
@pytest.mark.deep
@pytest.mark.timeout(3 * 3600)
def test_debians_tools_are_priced_before_they_run(tmp_path, request, debian):
    run("gcc", "-static", "-O1", "-o", tmp_path / "mix", MIX)
    found = dict(debian.scripts())
    made = {tool: one for tool, one in found.items() if not isinstance(one, str)}
    priced = prices(tmp_path, made)
    untraced = takes(debian, tmp_path, NOTHING)
    assert not isinstance(untraced, str), untraced
    rows = [row(debian, tool, found[tool], priced.get(tool), untraced, tmp_path) for tool in TOOLS]
    table = pd.DataFrame(rows)
    kept = pd.read_csv(TABLE, keep_default_na=False, dtype=str)
    if request.config.getoption("--update"):
        others = kept[kept["bpftrace"] != debian.version]
        kept = pd.concat([others, table.astype(str)]).sort_values("bpftrace", kind="stable")
        kept.to_csv(TABLE, index=False)
    before = kept[kept["bpftrace"] == debian.version].set_index("tool")
    for tool, one in table.set_index("tool").iterrows():
        assert one["why"] == before.loc[tool, "why"]
        # Where the program's memory lies hangs on the files that it is given: a few thousand instructions.
        if one["error"] and one["firings"] >= LEAST:
            assert float(one["error"]) == pytest.approx(float(before.loc[tool, "error"]), abs=0.05), tool


def row(debian: Debian, tool: str, made: Any, priced: Any, untraced: tuple[int, int], folder: Path) -> dict[str, Any]:
    empty = {
        "tool": tool,
        "bpftrace": debian.version,
        "kernel": KERNEL,
        "firings": "",
        "untraced": untraced[0],
        "predicted": "",
        "low": "",
        "high": "",
    }
    if priced is None:
        return empty | {"measured": "", "error": "", "with_start": "", "why": made}
    lines, firings = priced
    fired = int(sum(firings.values()))
    added = next((line for line in lines if line.startswith("added:")), None)
    value, low, high = (int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", added or "0 0 0"))
    if not value:
        out = [
            line for line in lines if not line.startswith(("not in the sum: BEGIN", "untraced", "added", "slowdown"))
        ]
        return empty | {"firings": fired, "measured": "", "error": "", "with_start": "", "why": out[0]}
    told = {"firings": fired, "predicted": value, "low": low, "high": high}
    traced = takes(debian, folder, debian.text_of(tool))
    if isinstance(traced, str):
        return empty | told | {"measured": "", "error": "", "with_start": "", "why": traced}
    measured, whole = (one - other for one, other in zip(traced, untraced, strict=True))
    errors = {"error": f"{value / measured - 1:+.3f}", "with_start": f"{value / whole - 1:+.3f}"}
    partly = next((line for line in lines if line.startswith("not in the sum") and not OWN.match(line)), "")
    return empty | told | {"measured": measured} | errors | {"why": partly and f"in part: {partly}"}
