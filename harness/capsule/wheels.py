# SPDX-License-Identifier: MIT
"""The wheels of requirements.lock, for one version of Python or several, and their licences."""

from __future__ import annotations

import email
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from harness.bootstrap import LOCK, PIP
from harness.errors import RunError, UsageError

#: glibc of the oldest distribution that wheels for another Python are asked for, and down to which.
GLIBC_MINORS = range(17, 37)


def own_version() -> str:
    """The version of the Python that runs, as 3.11."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def download(versions: Sequence[str], folder: Path) -> None:
    """Put pip and a wheel for each locked requirement and version of Python into `folder`, checked by their hashes.

    RunError when one cannot be had.
    """
    name, sha256 = PIP
    own = folder.with_name("pip.lock")
    own.write_text(f"pip=={name.split('-')[1]} --hash=sha256:{sha256}\n")
    for version in versions:
        command = [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
            *("--require-hashes", "--only-binary=:all:", "--requirement", str(LOCK), "--requirement", str(own)),
            *("--dest", str(folder)),
        ]
        if version != own_version():
            tag = f"cp{version.replace('.', '')}"
            command += ["--python-version", version, "--implementation", "cp", "--abi", tag, "--abi", "abi3"]
            command += ["--abi", "none"]
            command += [word for minor in GLIBC_MINORS for word in ("--platform", f"manylinux_2_{minor}_x86_64")]
            command += ["--platform", "manylinux2014_x86_64", "--platform", "any"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no reason given"]
            raise RunError(f"pip has no wheels for Python {version}: {reason[-1].removeprefix('ERROR: ')}")


def check_versions(versions: Sequence[str]) -> None:
    """UsageError for what is no version of Python that the project runs on."""
    for version in versions:
        major, _, minor = version.partition(".")
        if major != "3" or not minor.isdecimal() or int(minor) < 11:
            raise UsageError(f"--python {version}: must be 3.11 or newer, as 3.13")


def licence(wheel: Path) -> str:
    """What a wheel's metadata says of its licence, in one line."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith(".dist-info/METADATA")]
        told = email.message_from_bytes(archive.read(name))
    # str: what is not ASCII comes as an object of its own.
    expression, text = (str(told.get(key) or "").strip() for key in ("License-Expression", "License"))
    lines = map(str, told.get_all("Classifier", []))
    classifiers = [line.rpartition(" :: ")[2] for line in lines if line.startswith("License :: ")]
    short = text if text and "\n" not in text and len(text) < 80 else ""
    return expression or short or ", ".join(classifiers) or "see its .dist-info folder"
