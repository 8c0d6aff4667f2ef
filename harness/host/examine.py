# SPDX-License-Identifier: MIT
"""What this host can do: tools, disk, accelerator, PMU. `doctor` prints it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from rich import box
from rich.markup import escape
from rich.table import Table

from harness import debian, settings
from harness.errors import UsageError
from harness.status import STYLES, Status
from harness.yamlfile import Strict

#: What the host itself gives; the rest comes from the tools tree.
TOOLS = ("git", "setpriv", "prlimit")
#: And with the setting host_tools.
HOST_TOOLS = ("qemu-system-x86_64", "gcc", "make", "ccache", "xz")
#: A cold run keeps a source tree, two builds, ccache and states: about this much.
DISK_WANTED_GIB = 6
#: Of these, what the tools, one kernel and its image are at least.
DISK_LEAST_GIB = 3


class Finding(Strict):
    """One thing looked at: `ok`, `absent` (works without it) or `failed` (guests need it)."""

    name: str
    status: Status
    detail: str


class HostReport(Strict):
    """All findings, in the order in which a person reads them."""

    findings: list[Finding]

    @property
    def usable(self) -> bool:
        return all(finding.status != "failed" for finding in self.findings)


Look = Callable[[], tuple[bool, str]]


def examine(store: Path, kvm: Look, tree: Look, sandboxes: Mapping[str, Look]) -> HostReport:
    """Look at this host. `kvm` proves KVM by a boot, or says why it is not proven (harness.machine.accelerator).

    `tree` says of the tools tree whether it can be entered here, and how (harness.packages.tree); `sandboxes`, by
    name, what QEMU and analyses are shut in, and whether nothing is missing of it (harness.machine.sandbox).
    """
    findings = [_cpu(), _memory(), _disk(store), *map(_tool, TOOLS)]
    if debian.host_tools():
        findings += [_packages(), *map(_tool, HOST_TOOLS)]
    else:
        entered, how = tree()
        findings.append(Finding(name="tools tree", status="ok" if entered else "failed", detail=how))
    for name, look in sandboxes.items():
        whole, shut_in = look()
        findings.append(Finding(name=name, status="ok" if whole else "absent", detail=shut_in))
    works, reason = kvm()
    findings.append(Finding(name="KVM", status="ok" if works else "absent", detail=reason))
    findings.append(_pmu())
    return HostReport(findings=findings)


def table(report: HostReport) -> Table:
    """The report as a table for a terminal."""
    shown = Table(title="This host", box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for name in ("what", "status", "detail"):
        shown.add_column(name, overflow="fold")
    for finding in report.findings:
        style = STYLES[finding.status]
        shown.add_row(finding.name, f"[{style}]{finding.status}[/{style}]", finding.detail)
    return shown


def settings_table() -> Table:
    """Every setting of this machine and where it is from. UsageError for one that cannot be used."""
    made = Table(title=f"Settings: {settings.path()}", box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for name in ("key", "value", "from"):
        made.add_column(name, overflow="fold")
    for setting in settings.SETTINGS:
        value, source = settings.value(setting)
        text = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value or setting.shown)
        made.add_row(*map(escape, (setting.key, text.replace("`", ""), source)))
    return made


def _cpu() -> Finding:
    cpus = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    return Finding(name="CPUs", status="ok", detail=f"{cpus} usable, load {load:.1f}")


def _memory() -> Finding:
    mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") >> 20
    enough = mib >= 1024
    return Finding(name="memory", status="ok" if enough else "failed", detail=f"{mib} MiB free, 1024 wanted")


def check_memory(mib: int | None) -> None:
    """UsageError for a guest with more memory than this host has at all."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    if mib is not None and mib > whole:
        raise UsageError(f"--memory {mib}: this host has {whole} MiB")


def check_room(store: Path) -> None:
    """UsageError where an empty store has no room for what any guest needs."""
    free = _free_gib(store)
    if free < DISK_LEAST_GIB:
        raise UsageError(
            f"{free:.1f} GiB are free, and the tools and a kernel need {DISK_LEAST_GIB}",
            where=str(store),
            hint=f"the setting store, or {settings.STORE.variable}, names another folder",
        )


def _free_gib(store: Path) -> float:
    existing = next(path for path in (store, *store.parents) if path.exists())
    return shutil.disk_usage(existing).free / 2**30


def _disk(store: Path) -> Finding:
    free = _free_gib(store)
    enough = free >= DISK_WANTED_GIB
    return Finding(
        name="disk",
        status="ok" if enough else "failed",
        detail=f"{free:.1f} GiB free at {store}, {DISK_WANTED_GIB} wanted for a cold run",
    )


def _packages() -> Finding:
    try:
        missing = debian.missing(debian.GUEST_PACKAGES)
    except OSError:
        return Finding(name="packages", status="absent", detail="no dpkg: not a Debian host; see the tools below")
    if missing:
        return Finding(
            name="packages",
            status="failed",
            detail=f"apt-get install -y --no-install-recommends {' '.join(missing)}",
        )
    return Finding(name="packages", status="ok", detail=f"all {len(debian.GUEST_PACKAGES)} installed")


def _tool(name: str) -> Finding:
    path = shutil.which(name)
    if path is None:
        return Finding(name=name, status="absent" if name == "ccache" else "failed", detail="not in PATH")
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    lines = (done.stdout or done.stderr).strip().splitlines()
    return Finding(name=name, status="ok", detail=lines[0] if lines else path)


def _pmu() -> Finding:
    """Hardware counters of the host: only a guest under a proven KVM can have them passed through."""
    events = Path("/sys/bus/event_source/devices/cpu")
    if not events.exists():
        return Finding(name="PMU", status="absent", detail="the host's kernel has no hardware PMU")
    return Finding(
        name="PMU", status="ok", detail="the host has one; a guest's figures count after its known-work check"
    )
