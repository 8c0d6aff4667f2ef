# SPDX-License-Identifier: MIT
"""Config fragments: a line is used, or told."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.kernel.fragments import read_fragment


def test_each_form_of_an_option_is_read(tmp_path):
    path = tmp_path / "a.config"
    path.write_text(
        "# a comment, of CONFIG_X=y too\n#\n\n  # and this\nCONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\nCONFIG_D=n\n"
        'CONFIG_E=0x10\nCONFIG_F=-5\nCONFIG_G="text # \\" = y"\nCONFIG_H=""'
    )
    assert read_fragment(path) == {
        "CONFIG_A": "y", "CONFIG_B": "m", "CONFIG_C": "n", "CONFIG_D": "n", "CONFIG_E": "0x10", "CONFIG_F": "-5",
        "CONFIG_G": '"text # \\" = y"', "CONFIG_H": '""',
    }  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "  CONFIG_A=y", "CONFIG_A = y", "CONFIG_A =y", "A=y", "CONFIG_A", "CONFIG_A=", "CONFIG_A=yes",
        "CONFIG_A=y # why", "CONFIG_A=y\r", "CONFIG_A=y ",
        'CONFIG_A="open', "#CONFIG_A is not set", "# CONFIG_A is not set ",
        "#  CONFIG_A is not set", "# A is not set", "# CONFIG_A  is not set", "\t# CONFIG_A is not set", "hello",
    ],
)  # fmt: skip
def test_what_kconfig_would_pass_over_is_told_with_its_line(tmp_path, line):
    path = tmp_path / "a.config"
    path.write_bytes(f"CONFIG_B=y\n{line}\n".encode())
    with pytest.raises(UsageError, match=r"a.config:2: is no config option: .*\(whole lines CONFIG_NAME=y"):
        read_fragment(path)


@pytest.mark.parametrize("second", ["CONFIG_A=y", "CONFIG_A=n", "# CONFIG_A is not set"])
def test_an_option_that_is_there_twice_is_told(tmp_path, second):
    path = tmp_path / "a.config"
    path.write_text(f"CONFIG_A=y\n{second}\n")
    with pytest.raises(UsageError, match=r"a\.config:2: CONFIG_A is there twice"):
        read_fragment(path)


def test_a_fragment_that_is_no_text_is_told(tmp_path):
    (tmp_path / "a.config").write_bytes(b"\xff")
    for name, why in (("a.config", "is no text"), ("absent.config", "cannot be read: No such file")):
        with pytest.raises(UsageError, match=f"{name}: {why}"):
            read_fragment(tmp_path / name)
