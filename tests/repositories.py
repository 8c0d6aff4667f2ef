# SPDX-License-Identifier: MIT
"""Repositories that tests make."""

from __future__ import annotations

import subprocess


def git(folder, *words):
    """What git says there, as somebody whose settings are not the user's."""
    own = ("-c", "user.name=A Developer", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", "-C", str(folder), *own, *words], capture_output=True, text=True, check=True).stdout
