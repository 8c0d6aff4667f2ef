# SPDX-License-Identifier: MIT
"""The command line itself: what it ends with where Invoke has a way of its own."""

from __future__ import annotations

import pytest
from invoke import Program

from harness.commands.program import program


@pytest.mark.parametrize("step", ["create_config", "parse_core", "parse_collection", "update_config"])
def test_an_interruption_before_a_command_begins_is_not_the_exit_code_of_a_contradicted_claim(monkeypatch, step):
    def interrupt(*_words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Program, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        program.run(["inv", "doctor"])


def test_an_exit_code_of_invoke_is_kept():
    with pytest.raises(SystemExit) as ended:
        program.run(["inv", "no-such-command"])
    assert ended.value.code == 2
