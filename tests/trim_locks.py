# SPDX-License-Identifier: MIT
"""`python -m tests.trim_locks`: of what pip-compile has locked, the hashes of files that krepro can install.

pip-compile lists those of each file that was ever uploaded of a version, for all systems. krepro runs on Linux, x86_64:
three quarters of the lines are of others. Whoever renews a lock runs this after

    pip-compile --extra test --generate-hashes --strip-extras --no-header --output-file requirements.lock pyproject.toml
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request

from harness.paths import ROOT

SIMPLE = "application/vnd.pypi.simple.v1+json"
#: Wheels of these: pure, or for the C library of a distribution, with the ABI of a Python that krepro knows.
FITTING = re.compile(r"-(py3|py2\.py3|cp3\d+)-(none|abi3|cp3(1[1-9]))-(any|.*(many|musl)linux\w*_x86_64.*)\.whl$")


def files_of(index: str, name: str) -> dict[str, str]:
    """sha256 to name of every file of a project."""
    request = urllib.request.Request(f"{index.rstrip('/')}/{name}/", headers={"Accept": f"{SIMPLE}, text/html;q=0.1"})
    with urllib.request.urlopen(request) as answer:
        text = answer.read().decode()
        if SIMPLE in answer.headers["Content-Type"]:
            return {file["hashes"]["sha256"]: file["filename"] for file in json.loads(text)["files"]}
    return {sha256: name for name, sha256 in re.findall(r'href="[^"]*?([^/"#]+)#sha256=([0-9a-f]{64})"', text)}


def trimmed(text: str, index: str) -> str:
    """A lock with the fitting files' hashes alone; a version that has none keeps what it has."""
    entries = re.split(r"^(?=\S+==)", text, flags=re.MULTILINE)
    return "".join(_trimmed(entry, index) for entry in entries)


def _trimmed(entry: str, index: str) -> str:
    found = re.match(r"([\w.-]+)==", entry)
    if found is None:
        return entry
    files = files_of(index, found[1])
    hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)
    fitting = [one for one in hashes if FITTING.search(files.get(one, ""))] or hashes
    lines = "".join(f" \\\n    --hash=sha256:{one}" for one in fitting)
    return re.sub(r"( \\\n    --hash=sha256:[0-9a-f]{64})+", lambda _: lines, entry)


if __name__ == "__main__":
    words = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    told = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    for path in sorted(ROOT.glob("requirements*.lock")):
        path.write_text(trimmed(path.read_text(), told or "https://pypi.org/simple"))
        print(path, len(path.read_text().splitlines()))
