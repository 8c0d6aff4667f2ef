# SPDX-License-Identifier: MIT
"""A distribution's .config as a kernel's base, through the real kconfig of the real source."""

from __future__ import annotations

import pytest

from harness.kernel.build import configure, parse_config
from harness.kernel.load import load_kernel
from harness.kernel.source import fetch_source, patched_tree, source_identity

pytestmark = [pytest.mark.deep, pytest.mark.timeout(1800)]  # the first that needs the kernel builds it
SPEC = """\
name: theirs
arch: x86_64
source: {debian: linux-source-6.1}
config: config-amd64
fragments: [base]
"""
#: As in Debian's: drivers as modules, keys of its own build, its choice of a preemption model, a name.
CHANGED = {
    "CONFIG_VIRTIO_NET": "m",
    "CONFIG_VIRTIO_BLK": "m",
    "CONFIG_BLK_DEV_LOOP": "m",
    "CONFIG_SYSTEM_TRUSTED_KEYRING": "y",
    "CONFIG_SYSTEM_TRUSTED_KEYS": '"debian/certs/debian-uefi-certs.pem"',
    "CONFIG_HZ_100": "n",
    "CONFIG_HZ_250": "y",
    "CONFIG_IPV6": "m",
    "CONFIG_LOCALVERSION": '"-amd64"',
}


def test_the_base_is_kept_but_for_what_guests_need(store, modern, tmp_path):
    options = parse_config(modern.kernel.file("config").read_text()) | CHANGED
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/theirs.yaml").write_text(SPEC)
    lines = [f"# {name} is not set" if value == "n" else f"{name}={value}" for name, value in options.items()]
    (tmp_path / "kernels/config-amd64").write_text("\n".join(lines) + "\n")
    recipe = load_kernel("theirs", tmp_path)
    archive = fetch_source(store, recipe.spec.source)
    tree = patched_tree(store, recipe, archive, source_identity(recipe.spec.source, archive))
    before = tree.stat().st_mtime_ns
    configure(recipe, tree, tmp_path / "out", tmp_path / "log")
    assert tree.stat().st_mtime_ns == before, "not even for a moment: others check it"
    final = parse_config((tmp_path / "out/.config").read_text())
    assert {final[name] for name in ("CONFIG_HZ_250", "CONFIG_KPROBES", "CONFIG_DAMON")} == {"y"}, "the base's"
    assert {final[name] for name in ("CONFIG_VIRTIO_NET", "CONFIG_VIRTIO_BLK")} == {"y"}, "a guest's way out"
    assert {final.get(name, "n") for name in ("CONFIG_BLK_DEV_LOOP", "CONFIG_IPV6")} == {"n"}, "no modules"
    assert final.get("CONFIG_SYSTEM_TRUSTED_KEYS", '""') == '""'
    assert final["CONFIG_LOCALVERSION"] == '""'
