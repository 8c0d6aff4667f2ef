# SPDX-License-Identifier: MIT
"""Where a result comes from: repository state, host, packages."""

from __future__ import annotations

import ast
import hashlib
import io
import os
import platform
import re
import sys
import time
import tokenize
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, field_validator, model_validator

import harness
from harness.artefacts.store import hash_of
from harness.errors import KreproError
from harness.git import git, git_text
from harness.paths import CODE, INSTALLED, ROOT
from harness.yamlfile import Strict, about

Reasons = Annotated[dict[str, str], about("why, for each field of this object that is null; and for no other")]
Model = TypeVar("Model", bound=BaseModel)


def check_reasons(model: Model) -> Model:
    """Validator of models that have a field `absent: Reasons`: its keys must be exactly the fields that are null."""
    null = {name for name, value in model if value is None}
    reasons = set(getattr(model, "absent"))  # noqa: B009  (every model that uses this has it)
    if null - reasons:
        raise ValueError(f"{', '.join(sorted(null - reasons))} is null without a reason in absent")
    if reasons - null:
        raise ValueError(f"absent has a reason for {', '.join(sorted(reasons - null))}, which is not null")
    return model


PACKAGES = ("matplotlib", "numpy", "pandas", "paramiko", "pyarrow", "pydantic", "qemu.qmp", "scipy")

#: A git commit, or the beginning of one: given to git it can mean nothing else.
COMMIT = re.compile(r"[0-9a-f]{1,64}")
#: Name of this project among the packages, and its folders that decide what tables, metrics and figures are.
OWN = "krepro"
ANALYSING = ("measure", "oracle", "report")
#: Its folders that decide how a trial is run and what is written down of it.
MEASURING = ("machine", "guest", "experiment", "trial")


class Repository(Strict):
    """The state of the project's repository: commit, and a hash of what is not committed."""

    commit: Annotated[str | None, about("git commit")]
    dirty: Annotated[bool | None, about("whether something is not committed")]
    diff_sha256: Annotated[str | None, about("hash of what is not committed")]
    absent: Reasons = {}

    _reasons = model_validator(mode="after")(check_reasons)

    @field_validator("commit")
    @classmethod
    def _hash(cls, commit: str | None) -> str | None:
        if commit is not None and COMMIT.fullmatch(commit) is None:
            raise ValueError(f"{commit!a} is no git commit")
        return commit


class Host(Strict):
    """The machine that QEMU ran on."""

    cpu: Annotated[str, about("model name")]
    cpus: Annotated[int, about("usable by this process", "CPUs")]
    hypervisor: Annotated[bool | None, about("whether it is itself a virtual machine, by its CPU's flags")]
    governor: Annotated[str | None, about("frequency governor of CPU 0")]
    frequency_driver: Annotated[str | None, about("that sets CPU 0's frequency")]
    turbo: Annotated[bool | None, about("whether CPUs may run above their nominal frequency")]
    idle_driver: Annotated[str | None, about("that idles the CPUs")]
    idle_states: Annotated[list[str] | None, about("C-states of CPU 0 that are not disabled, the shallowest first")]
    kvm: Annotated[
        dict[str, str] | None,
        about("parameters of the modules kvm, kvm_* and haltpoll: MODULE.PARAMETER to value, as sysfs has it"),
    ]
    kernel: Annotated[str, about("release")]
    memory_mib: Annotated[int, about("of the whole host", "MiB")]
    load_before: Annotated[float, about("one-minute load when the run began", "runnable tasks")]
    load_after: Annotated[float | None, about("and when it ended", "runnable tasks")]
    absent: Reasons = {}

    _reasons = model_validator(mode="after")(check_reasons)


def repository(root: Path = ROOT, *, installed: bool = INSTALLED) -> Repository:
    """The state of the repository at `root`; absent with a reason outside a git checkout.

    `installed`: `root` is within a package of Python, so a repository around it is somebody else's.
    """
    if installed:
        return _unknown(f"no git checkout: krepro {harness.__version__} as it was installed")
    try:
        commit = git_text(root, "rev-parse", "HEAD")
        changes = _uncommitted(root)
    except (OSError, KreproError) as error:
        return _unknown(f"no git checkout: {error}"[:200])
    if changes is None:
        return Repository(commit=commit, dirty=False, diff_sha256=None, absent={"diff_sha256": "all is committed"})
    return Repository(commit=commit, dirty=True, diff_sha256=changes)


def _unknown(why: str) -> Repository:
    absent = dict.fromkeys(("commit", "dirty", "diff_sha256"), why)
    return Repository(commit=None, dirty=None, diff_sha256=None, absent=absent)


def _uncommitted(root: Path) -> str | None:
    """sha256 over the diff to the last commit and over name and content of each untracked file; None when clean."""
    diff = git(root, "diff", "--binary", "HEAD")
    # Not `git status`: it names an untracked folder, not the files in it.
    untracked = [name for name in git(root, "ls-files", "--others", "--exclude-standard", "-z").split(b"\0") if name]
    if not diff and not untracked:
        return None
    total = hashlib.sha256(diff)
    for name in sorted(untracked):
        path = root / os.fsdecode(name)
        content = path.read_bytes() if path.is_file() else b""  # a checkout inside this one is told by its name
        total.update(b"%s\0%s\0" % (name, hashlib.sha256(content).hexdigest().encode()))
    return total.hexdigest()


def load() -> float:
    """The host's one-minute load average now."""
    return round(os.getloadavg()[0], 2)


def cpu_model() -> str:
    """Model name of the host's CPU."""
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return model[1] if model else platform.machine()


def host(load_before: float) -> Host:
    """What this host is, and its load now, at the end of a run."""
    settings, reasons = cpu_settings()
    return Host(
        cpu=cpu_model(),
        cpus=len(os.sched_getaffinity(0)),
        kernel=platform.release(),
        memory_mib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        load_before=load_before,
        load_after=load(),
        absent=reasons,
        **settings,
    )


@cache
def source_hash(folders: tuple[str, ...]) -> str:
    """sha256 over the code in these folders of krepro, as it was when this was asked first.

    Docstrings, comments and blank lines are left out: they change no bit, so they void no trial.
    """
    sources = [path for folder in folders for path in sorted((CODE / "harness" / folder).rglob("*.py"))]
    return hash_of({path.relative_to(CODE).as_posix(): code_of(path.read_text()) for path in sources})


def code_of(source: str) -> list[str]:
    """The lines of a Python text that are code, without what stands there for people.

    It is made of the text, not of bytecode or a syntax tree: those are others in each version of Python.
    """
    text = source.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            text[row - 1] = text[row - 1][:column]
    lines = [line.encode() for line in text]  # a syntax tree counts bytes, where a token counts characters
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
            kept = lines[first][: node.col_offset] + lines[last][node.end_col_offset :]
            lines[first : last + 1] = [kept] + [b""] * (last - first)
    return [line.rstrip().decode() for line in lines if line.strip(b" \t;")]


def made_now() -> dict[str, Any]:
    """Fields of a manifest: when, by which words and with what it is made, which is now and by this process."""
    return {
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command_line": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "repository": repository(),
        "packages": package_versions(),
    }


def package_versions() -> dict[str, str]:
    """Versions of the libraries that decide figures and files; krepro's own is a hash of the parts that do."""
    own = source_hash(ANALYSING)[:12]
    versions = {name: metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), OWN: own, **versions}


#: Whose parameters are kept: KVM with its parts, and the idling of a host that is itself a guest.
MODULES = re.compile(r"kvm(_\w+)?|haltpoll")
#: Of a parameter's value: a list for debugging tells nothing of a measurement.
MOST_VALUE = 64


def cpu_settings(sys: Path = Path("/sys"), proc: Path = Path("/proc")) -> tuple[dict[str, Any], dict[str, str]]:
    """Fields of `Host` and, of those that are null, why: frequency, turbo, idle states (of CPU 0), and KVM's."""
    cpu = sys / "devices/system/cpu"
    values: dict[str, Any] = {
        "hypervisor": re.search(r"^flags\b.*\bhypervisor\b", text_of(proc / "cpuinfo") or "", re.MULTILINE) is not None,
        "governor": text_of(cpu / "cpu0/cpufreq/scaling_governor"),
        "frequency_driver": text_of(cpu / "cpu0/cpufreq/scaling_driver"),
        "turbo": _turbo(cpu),
        "idle_driver": text_of(cpu / "cpuidle/current_driver"),
        "idle_states": _idle_states(cpu / "cpu0/cpuidle"),
        "kvm": _parameters(sys / "module"),
    }
    reasons = {
        "governor": f"no {cpu}/cpu0/cpufreq/scaling_governor",
        "frequency_driver": f"no {cpu}/cpu0/cpufreq/scaling_driver",
        "turbo": f"neither {cpu}/intel_pstate/no_turbo nor {cpu}/cpufreq/boost",
        "idle_driver": f"no {cpu}/cpuidle/current_driver",
        "idle_states": f"no {cpu}/cpu0/cpuidle",
        "kvm": f"no parameters of kvm in {sys}/module",
    }
    return values, {name: why for name, why in reasons.items() if values[name] is None}


def text_of(path: Path) -> str | None:
    """What a small file says; None where it is not there or cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def _turbo(cpu: Path) -> bool | None:
    off, on = text_of(cpu / "intel_pstate/no_turbo"), text_of(cpu / "cpufreq/boost")
    if off is not None:
        return off == "0"
    return None if on is None else on == "1"


def _idle_states(folder: Path) -> list[str] | None:
    """Names of the states that are not disabled, the shallowest first."""
    states = sorted(folder.glob("state[0-9]*"), key=lambda state: int(state.name.removeprefix("state")))
    if not states:
        return None
    return [text_of(state / "name") or state.name for state in states if text_of(state / "disable") in (None, "0")]


def _parameters(modules: Path) -> dict[str, str] | None:
    """MODULE.PARAMETER to value."""
    files = [file for file in sorted(modules.glob("*/parameters/*")) if MODULES.fullmatch(file.parents[1].name)]
    told = {f"{file.parents[1].name}.{file.name}": text_of(file) for file in files}
    return {name: text for name, text in told.items() if text is not None and len(text) <= MOST_VALUE} or None
