# SPDX-License-Identifier: MIT
"""The file that a user of the self-test attaches to an issue: all that it takes to understand a row, and nobody's name.

Its facts are chosen so that they name nobody; texts of others (a reason, a console) are gone through as well.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.artefacts.store import Store
from harness.errors import KreproError, UsageError
from harness.host.examine import HostReport
from harness.host.kindtrial import Row
from harness.machine.qemu import qemu_version
from harness.paths import ROOT
from harness.sets.provenance import host, load, package_versions, repository, text_of
from harness.yamlfile import Strict

FORMAT = 1
#: What of the CPU decides whether guests run and what their clocks and counters are worth.
CPU_FLAGS = (
    *("vmx", "svm", "ept", "npt", "la57", "hypervisor", "constant_tsc", "nonstop_tsc", "rdtscp", "arch_perfmon"),
    *("perfctr_core", "vpid", "tsc_scale", "pti", "smep", "smap"),
)
#: Names of users and hosts that tell nothing of anybody, and that consoles are full of.
COMMON = frozenset({"root", "localhost", "krepro", "kvm", "tcg", "host", "guest", "linux", "debian"})
FOLDERS_OF_PEOPLE = re.compile(r"/(home|Users|root)/[^\s:,;'\"]*")


class Attachment(Strict):
    """The file's content."""

    format: int
    created: str
    interrupted: bool
    repository: dict[str, Any]
    packages: dict[str, str]
    qemu: str
    system: str
    host: dict[str, Any]
    cpu_flags: list[str]
    clocksource: str | None
    kvm_proofs: dict[str, str]
    findings: list[dict[str, str]]
    rows: list[Row]


def attachment(rows: Sequence[Row], report: HostReport, proofs: Mapping[str, str], interrupted: bool) -> Attachment:
    """What the host is, and what was tried on it."""
    release = Path("/etc/os-release")
    named = re.search(r'^PRETTY_NAME="?([^"\n]*)', release.read_text(), re.MULTILINE) if release.is_file() else None
    return Attachment(
        format=FORMAT,
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        interrupted=interrupted,
        repository=repository().model_dump(mode="json"),
        packages=package_versions(),
        qemu=_qemu(),
        system=named[1] if named else "unknown",
        host=host(load()).model_dump(mode="json"),
        cpu_flags=_cpu_flags(),
        clocksource=text_of(Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        kvm_proofs=dict(proofs),
        findings=[finding.model_dump(mode="json") for finding in report.findings],
        rows=list(rows),
    )


def write_attachment(content: Attachment, out: Path | None, store: Store) -> Path:
    """Write it to `out`, a file or a folder, or here; its path. UsageError where that cannot be written."""
    name = f"selftest-{content.created.replace('-', '').replace(':', '')}.json"
    target = Path(name).absolute() if out is None else out / name if out.is_dir() else out
    document = anonymous(content.model_dump(mode="json"), private_words(store.root))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(target), hint="--out FILE") from error
    return target


def private_words(store: Path) -> dict[str, str]:
    """What must not be in the file, and what stands in its place: folders of this host first, then names."""
    folders = {Path.cwd(): "HERE", Path(tempfile.gettempdir()): "TMP", store: "STORE", ROOT: "PROJECT"}
    words = {str(path): name for path, name in folders.items()}
    words[str(Path.home())] = "HOME"
    words = {text: name for text, name in sorted(words.items(), key=lambda item: -len(item[0])) if len(text) > 1}
    host_name = socket.gethostname()
    names = {host_name: "HOST", host_name.partition(".")[0]: "HOST", _user(): "USER"}
    names[os.environ.get("SUDO_USER", "")] = "USER"
    return words | {name: told for name, told in names.items() if len(name) > 1 and name.lower() not in COMMON}


def anonymous(value: Any, words: Mapping[str, str]) -> Any:
    """The same JSON without these words: folders wherever they stand, names where they are a whole word."""
    if isinstance(value, dict):
        return {key: anonymous(inner, words) for key, inner in value.items()}
    if isinstance(value, list):
        return [anonymous(inner, words) for inner in value]
    if not isinstance(value, str):
        return value
    for text, told in words.items():
        if text.startswith("/"):
            value = re.sub(rf"{re.escape(text)}(?![\w.-])", told, value)
        else:
            value = re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", told, value, flags=re.IGNORECASE)
    return FOLDERS_OF_PEOPLE.sub("HOME", value)


def _cpu_flags() -> list[str]:
    flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    there = set(flags[1].split()) if flags else set()
    return [name for name in CPU_FLAGS if name in there]


def _qemu() -> str:
    try:
        return qemu_version()
    except KreproError as error:
        return str(error)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""
