# SPDX-License-Identifier: MIT
"""Config fragments against the final .config: every request is fulfilled or named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.kernel.build import (
    base_config,
    build_id,
    kernel_inputs,
    parse_config,
    requested_options,
    unmet_options,
)
from harness.kernel.load import load_kernel
from tests.compiling import run
from tests.conftest import needs_guest_packages

options = st.dictionaries(
    st.from_regex(r"CONFIG_[A-Z0-9_]{1,8}", fullmatch=True),
    st.sampled_from(["y", "m", "n", "0x1000", "-1", '"a b=c"', '""']),
    max_size=8,
)


def as_text(config: dict[str, str], junk: str = "") -> str:
    lines = [f"# {name} is not set" if value == "n" else f"{name}={value}" for name, value in config.items()]
    return "".join(f"{junk}{line}\n" for line in lines)


@given(options, st.sampled_from(["", "\n", "#\n# Processor type\n", "# CONFIG_X=y is only a comment\n"]))
def test_what_kconfig_writes_is_read_back(config, junk):
    assert parse_config(as_text(config, junk)) == config


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("CONFIG_A=y\nCONFIG_A=m\n", {"CONFIG_A": "m"}),
        ("CONFIG_A=y\n# CONFIG_A is not set\n", {"CONFIG_A": "n"}),
        ("CONFIG_A=y", {"CONFIG_A": "y"}),
        ("CONFIG_A=y  \nCONFIG_B=n\r\n", {"CONFIG_A": "y", "CONFIG_B": "n"}),
        ("#CONFIG_A=y\n CONFIG_B=y\nNOCONFIG_C=y\n# CONFIG_D is not set here\n", {}),
    ],
)
def test_corner_cases(text, config):
    assert parse_config(text) == config


@given(options, options)
def test_later_fragments_win(tmp_path, first, second):
    paths = [tmp_path / "1.config", tmp_path / "2.config"]
    for path, config in zip(paths, (first, second), strict=True):
        path.write_text(as_text(config))
    assert requested_options(paths) == {**first, **second}


@given(options, options)
def test_unmet_names_exactly_the_differences(wanted, final):
    absent_is_off = {name for name, value in wanted.items() if final.get(name, "n") != value}
    unmet = unmet_options(wanted, final)
    assert {text.split("=")[0] for text in unmet} == absent_is_off
    assert not unmet_options(final, final)


def test_unmet_says_wanted_and_actual():
    wanted = {"CONFIG_A": "y", "CONFIG_B": "n", "CONFIG_C": "y", "CONFIG_D": "n"}
    assert unmet_options(wanted, {"CONFIG_A": "m", "CONFIG_B": "y"}) == [
        "CONFIG_A=y (is m)",
        "CONFIG_B=n (is y)",
        "CONFIG_C=y (is n)",
    ]


def test_a_base_has_no_modules_and_no_keys_of_its_distribution():
    base = {"CONFIG_A": "y", "CONFIG_B": "m", "CONFIG_C": "n", "CONFIG_D": '"text"'}
    own = {"CONFIG_SYSTEM_TRUSTED_KEYS": '"debian/certs/debian-uefi-certs.pem"', "CONFIG_LOCALVERSION": '"-amd64"'}
    assert parse_config(base_config(as_text(base | own))) == base | {"CONFIG_B": "n"}


@needs_guest_packages
def test_a_base_config_is_part_of_the_key_and_of_what_is_told(tmp_path):
    recipe = load_kernel("classic")
    config = tmp_path / "config-6.1"
    config.write_text("CONFIG_A=y\n")
    based = type(recipe)(recipe.spec, recipe.version, recipe.fragments, recipe.patches, config)
    inputs = kernel_inputs(based, {"archive": {"x": "y"}})
    assert [file["name"] for file in inputs["fragments"]][:2] == ["config-6.1", "base.config"]
    assert {**inputs, "fragments": inputs["fragments"][1:]} != kernel_inputs(recipe, {"archive": {"x": "y"}})
    config.write_text("CONFIG_A=n\n")
    assert kernel_inputs(based, {"archive": {"x": "y"}}) != inputs


@needs_guest_packages
def test_inputs_follow_contents_not_places(tmp_path):
    recipe = load_kernel("classic")
    inputs = kernel_inputs(recipe, {"archive": {"x": "y"}})
    assert str(recipe.fragments[0].parent) not in str(inputs)
    copies = []
    for path in recipe.patches:
        copy = tmp_path / path.name
        copy.write_bytes(path.read_bytes())
        copies.append(copy)
    moved = replace(recipe, patches=tuple(copies))
    assert kernel_inputs(moved, {"archive": {"x": "y"}}) == inputs
    copies[0].write_text(copies[0].read_text() + "\n")
    assert kernel_inputs(moved, {"archive": {"x": "y"}}) != inputs
    assert kernel_inputs(recipe, {"archive": {"x": "z"}}) != inputs


@needs_guest_packages
@pytest.mark.parametrize(("name", "same"), [("tools/testing/selftests/x.sh", True), ("kernel/x.c", False)])
def test_tests_and_documentation_of_a_kernel_are_not_in_its_key(tmp_path, name, same):
    recipe, file = load_kernel("classic"), tmp_path / "x"
    file.write_text("1\n")
    with_file = replace(recipe, sources=(*recipe.sources, (name, file)))
    assert (kernel_inputs(with_file, {}) == kernel_inputs(recipe, {})) is same


NOTES = """
.section .notes,"a",%note
.long 4, 8, 3
.ascii "Xen\\0"
.quad 0xffffffff80000000
.long 4, 20, 3
.ascii "GNU\\0"
.rept 5
.long 0x04030201
.endr
"""


@needs_guest_packages
def test_the_build_id_is_gnus_where_other_notes_have_its_number(tmp_path):
    (tmp_path / "notes.s").write_text(NOTES)
    run("gcc", "-c", "notes.s", "-o", "notes.o", cwd=tmp_path)
    assert build_id(tmp_path / "notes.o") == "01020304" * 5
