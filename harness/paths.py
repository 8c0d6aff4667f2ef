# SPDX-License-Identifier: MIT
"""Where the project's own folders are: beside the package in a checkout, within it in an installed copy."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
#: What Python finds the package in.
CODE = PACKAGE.parent
#: pyproject.toml says what a wheel has here.
_SHIPPED = PACKAGE / "project"
INSTALLED = _SHIPPED.is_dir()
ROOT = _SHIPPED if INSTALLED else CODE
EXPERIMENTS = ROOT / "experiments"
IMAGES = ROOT / "images"
KERNELS = IMAGES / "kernels"
#: For Debian's own kernels: the machines that they boot on, and guest programs in place of those of images/guest.
PACKAGED = IMAGES / "packaged"
FRAGMENTS = KERNELS / "fragments"
PATCHES = ROOT / "kernel-patches"
#: An installed copy has no folder of its own to write in: its results are in the folder that it is called in.
RESULTS = (Path.cwd() if INSTALLED else ROOT) / "results"
#: How a person calls the commands.
PROGRAM = "krepro" if INSTALLED else "./inv"
#: How the name of a capsule ends.
CAPSULE_SUFFIX = ".tar.zst"
#: The unpacked capsule that this checkout is in, with packages and wheels beside it; None where it is in none.
CAPSULE = ROOT.parent if (ROOT.parent / "SHA256SUMS").is_file() and (ROOT.parent / "wheels").is_dir() else None
