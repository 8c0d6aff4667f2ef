# SPDX-License-Identifier: MIT
"""`docs`: the pages of docs/ as a site."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from harness.cli.declaration import Option, command
from harness.cli.shared import check_checkout
from harness.paths import ROOT

LOCK = ROOT / "requirements-docs.lock"
#: What the site is made with: an extra, so that no other command waits for it.
GENERATOR = ("sphinx", "myst_parser", "furo")


@command("Upkeep")
def docs(out: Annotated[Path | None, Option("folder to write", writes="folder", none="`site/`")] = None) -> None:
    """Make a site of the docs, with a gallery of the papers."""
    from harness.errors import RunError

    check_checkout("docs")
    if not all(map(importlib.util.find_spec, GENERATOR)):
        _install()
    folder = out or ROOT / "site"
    words = ["-m", "sphinx", "-q", "-W", "--keep-going", "-c", str(ROOT / "docs/site"), str(ROOT), str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory(prefix="krepro-docs-") as pickled:
        done = subprocess.run([sys.executable, *words, "-d", pickled], check=False, env=environment)
    if done.returncode:
        raise RunError("the site is not whole: see above", where=str(folder))
    print(folder / "index.html")


def _install() -> None:
    from harness.errors import RunError

    print("krepro: installing requirements-docs.lock (once)", file=sys.stderr, flush=True)
    if importlib.util.find_spec("pip"):
        pip = ["-m", "pip"]
    else:
        from harness import bootstrap

        pip = [str(bootstrap.fetch_pip() / "pip")]
    words = [*pip, "--disable-pip-version-check", "--quiet", "install", "--require-hashes", "--no-deps", "-r"]
    if subprocess.run([sys.executable, *words, str(LOCK)], check=False).returncode:
        raise RunError("pip could not install it: see above", where=str(LOCK))
