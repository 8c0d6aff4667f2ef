# SPDX-License-Identifier: MIT
""".venv from the hash-locked requirements, before anything of it can be imported. Standard library only."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from harness import settings, stagetimes
from harness.paths import CAPSULE, ROOT

VENV = ROOT / ".venv"
LOCK = ROOT / "requirements.lock"
STAMP = VENV / "krepro-lock.sha256"
PR_SET_PDEATHSIG = 1
#: What nobody imports here is not compiled: the libraries' own tests are a third of all.
UNCOMPILED = r"/(tests?|pip|setuptools)/"
#: What fetching and unpacking takes of the lock: installed first, so that it goes on while the rest is.
EARLY = (
    *("annotated-types", "filelock", "invoke", "markdown-it-py", "mdurl", "pydantic", "pydantic-core", "pygments"),
    *("pyyaml", "rich", "typing-extensions", "typing-inspection"),
)
AHEAD = "harness.commands.ahead"
#: When each stage of this command began, for its next process.
STAGES = VENV / "krepro-stages.jsonl"
#: For a Python without its own copy of pip, as Debian's without python3-venv: name and sha256.
PIP = ("pip-26.3-py3-none-any.whl", "f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13")


def make_environment(words: Sequence[str]) -> bool:
    """Create .venv anew unless its stamp says that it holds exactly the locked requirements; whether it did.

    Meanwhile another process fetches and unpacks what the command of these words needs (harness/commands/ahead.py).
    """
    wanted = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()
    if STAMP.exists() and STAMP.read_text() == wanted:
        return False
    print("krepro: making .venv from requirements.lock (once)", file=sys.stderr, flush=True)
    begun = time.monotonic()
    own = importlib.util.find_spec("ensurepip") is not None
    bare = [] if own else ["--without-pip"]
    _run([sys.executable, "-m", "venv", "--clear", *bare, str(VENV)])
    stagetimes.keep_in(STAGES)
    pip = [str(VENV / "bin/python"), *(["-m", "pip"] if own else [str(fetch_pip() / "pip")])]
    pip += ["--disable-pip-version-check", "--quiet"]
    early, rest = split_lock(LOCK.read_text())
    stagetimes.ended("making .venv: Python and pip", begun)
    _install(pip, "early", early)
    # It ends with the command: after the exec in `inv` that is the same process.
    subprocess.Popen(
        [str(VENV / "bin/python"), "-P", "-m", AHEAD, *words, str(STAGES)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=_bound,  # noqa: PLW1509  (there are no threads yet)
    )
    _install(pip, "rest", rest)
    begun = time.monotonic()
    # pip would do it file by file; and ./inv itself writes no bytecode.
    words_of_compiler = ["-m", "compileall", "-q", "-j", "0", "-x", UNCOMPILED, str(VENV / "lib")]
    _run([str(VENV / "bin/python"), *words_of_compiler], check=False)
    stagetimes.ended("making .venv: bytecode", begun)
    STAMP.write_text(wanted)
    return True


def split_lock(text: str) -> tuple[str, str]:
    """A lock's entries: those of EARLY, and the others."""
    entries = re.split(r"^(?=\w)", text, flags=re.MULTILINE)
    named = [(re.split(r"[=\s]", entry, maxsplit=1)[0], entry) for entry in entries]
    early = "".join(entry for name, entry in named if name in EARLY)
    return early, "".join(entry for name, entry in named if name not in EARLY)


def _install(pip: Sequence[str], name: str, lock: str) -> None:
    """Install these entries of the lock; SystemExit with what pip says where it cannot be. Else pip is not heard."""
    begun = time.monotonic()
    file = VENV / f"{name}.lock"
    file.write_text(lock)
    install = [*pip, "install", "--require-hashes", "--no-deps", "--no-compile", "-r", str(file)]
    ways: list[list[str]] = [[]]
    online = not settings.switch(settings.OFFLINE)
    if CAPSULE:  # its wheels are for some versions of Python
        ways = [["--no-index", "--find-links", str(CAPSULE / "wheels")]] + ways * online
    for way in ways:
        done = _run([*install, *way], check=False, capture_output=True)
        if done.returncode == 0:
            break
        sys.stderr.buffer.write(done.stdout + done.stderr)
        sys.stderr.flush()
    else:
        sys.exit("krepro: pip could not install requirements.lock; see above, then run the same command again")
    stagetimes.ended(f"making .venv: {name} packages", begun)


def _bound() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _run(words: list[str], *, check: bool = True, capture_output: bool = False) -> subprocess.CompletedProcess[bytes]:
    """Run a program that is killed when this process ends: the next one makes the environment anew beside nobody."""
    return subprocess.run(words, check=check, capture_output=capture_output, preexec_fn=_bound)


def fetch_pip() -> Path:
    """pip as a wheel, which Python runs as it is: of a capsule, else of PIP_FIND_LINKS, PIP_INDEX_URL or PyPI."""
    name, sha256 = PIP
    target = VENV / name
    places = [CAPSULE / "wheels"] if CAPSULE else []
    places += map(Path, os.environ.get("PIP_FIND_LINKS", "").split())
    for place in places:
        if (place / name).is_file():
            target.write_bytes((place / name).read_bytes())
            break
    else:
        index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/") + "/pip/"
        try:
            with urllib.request.urlopen(index, timeout=60) as page:  # noqa: S310  (who runs this has set it)
                link = re.search(rf'href="([^"#]*{re.escape(name)})', page.read().decode())
            if link is None:
                sys.exit(f"krepro: {index} has no {name}: install python3-venv, or set PIP_INDEX_URL")
            link_url = urllib.parse.urljoin(index, link[1])
            with urllib.request.urlopen(link_url, timeout=60) as wheel:  # noqa: S310
                target.write_bytes(wheel.read())
        except OSError as error:
            sys.exit(f"krepro: pip cannot be fetched from {index}: {error}; install python3-venv, or set PIP_INDEX_URL")
    if hashlib.sha256(target.read_bytes()).hexdigest() != sha256:
        sys.exit(f"krepro: {name} is not the file that was meant: install python3-venv, or set PIP_INDEX_URL")
    return target
