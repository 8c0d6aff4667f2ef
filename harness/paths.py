# SPDX-License-Identifier: MIT
"""Where the repository's own folders are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENTS = ROOT / "experiments"
IMAGES = ROOT / "images"
KERNELS = IMAGES / "kernels"
FRAGMENTS = KERNELS / "fragments"
PATCHES = ROOT / "kernel-patches"
RESULTS = ROOT / "results"
#: How the name of a capsule ends.
CAPSULE_SUFFIX = ".tar.zst"
#: The unpacked capsule that this checkout is in, with packages and wheels beside it; None where it is in none.
CAPSULE = ROOT.parent if (ROOT.parent / "SHA256SUMS").is_file() and (ROOT.parent / "wheels").is_dir() else None
