# SPDX-License-Identifier: MIT
"""A pytest plugin: exact instruction counts of programs in other people's tests. `pytest -p harness.api.pytest_plugin`

def test_it_stays_cheap(exact_instructions):
    assert exact_instructions(["./prog", "input"]).user_instructions < 2_000_000
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session")
def exact_instructions() -> Callable[..., Any]:
    """`harness.api.profile`, with each program and its options profiled once a session: it is the same each time."""
    from harness.api.profiling import ProgramProfile, profile  # noqa: PLC0415  (pytest loads this for everybody)

    known: dict[str, ProgramProfile] = {}

    def go(program: list[str], **options: Any) -> ProgramProfile:
        key = repr((program, sorted(options.items())))
        if key not in known:
            known[key] = profile(program, quiet=True, **options)
        return known[key]

    return go
