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
