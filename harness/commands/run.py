# SPDX-License-Identifier: MIT
"""`run`: what a user chooses for one run."""

from __future__ import annotations

from harness.cli import terminal
from harness.cli.declaration import command
from harness.run.request import RunRequest


@command("Run a paper", guests=True)
def run(request: RunRequest) -> int:
    """Run an experiment: build, boot, measure, judge its claims."""
    from harness.run import pipeline

    return pipeline.run(request, terminal.output()).exit_code
