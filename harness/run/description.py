# SPDX-License-Identifier: MIT
"""What a trial is a function of, as one hash: equal descriptions under the virtual clock mean equal bits."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Any

from harness.artefacts.store import hash_file, hash_of
from harness.machine.qemu import qemu_version
from harness.sets.provenance import MEASURING, cpu_model, source_hash
from harness.trial.model import TrialSpec


def describe_trial(spec: TrialSpec, host: tuple[str, str] | None = None) -> str:
    """sha256 of everything that decides a trial, whatever its arm is called and wherever its files lie.

    What runs it on the host's side is part of it: trials of two states of krepro make no run together. Under the wall
    clock the host is part of it: what was measured on another is another measurement. `host`: its CPU's model and its
    kernel's release; this one without it.
    """
    files, plugin = spec.files, spec.plugin
    described: dict[str, Any] = {
        "krepro": source_hash(MEASURING),
        "qemu": qemu_version(),
        "machine": spec.machine.model_dump(mode="json"),
        "kernel": _content(files.kernel),
        "image": _content(files.initrds[0]),
        "plugins": [_content(path) for path in (files.halt, files.stale) if path is not None],
        "job": spec.job,
        "seed": spec.seed,
        "oracle": {key: _value(value) for key, value in plugin.arguments.items()} if plugin else None,
        "oracle_plugin": _content(plugin.path) if plugin else None,
        "state": spec.state.key if spec.state else None,
    }
    if spec.machine.clock == "wall":
        described["host"] = list(host or (cpu_model(), platform.release()))
    return hash_of(described)


def _value(text: str) -> str:
    """An argument of a plugin; of one that names a file its content."""
    return _content(Path(text)) if text.startswith("/") else text


@cache
def _content(path: Path) -> str:
    return hash_file(path)
