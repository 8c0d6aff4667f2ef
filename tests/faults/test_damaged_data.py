# SPDX-License-Identifier: MIT
"""Files of the store that are not what was written, for the next run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.errors import EXIT_OK, EXIT_RUN_FAILED
from harness.paths import ROOT
from tests.faults.rows import fault
from tests.faults.runs import PROGRAM, Place, seeded_store

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

YAML = """\
name: faulty
paper: {authors: [Nobody], year: 2024, title: Data that are damaged}
workloads:
  work: {command: "echo well", timeout_s: 20}
arms:
  virtual: {kernel: classic, clock: virtual}
repetitions: {quick: 1}
"""


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path], None]] = {"cut": cut, "empty": emptied, "flipped": flipped, "missing": Path.unlink}


@fault("files of the store are cut, empty, missing, or have one bit flipped: image, state, plugin, seal",
       "made again, with a warning; same digest")  # fmt: skip
def test_damaged_entries_of_the_store_are_made_again(tmp_path):
    store = seeded_store(tmp_path / "store")
    place = Place(tmp_path / "place", YAML, {"KREPRO_STORE": str(store)})
    assert place.run().status == EXIT_OK
    digest = place.manifest()["digest"]
    try:
        for how, damage in DAMAGES.items():
            for kind, name in (("image", "image.cpio"), ("state", "state"), ("plugin", "*.so"), ("image", "*.json")):
                victim = next(store.glob(f"{kind}/*/{name}"))
                damage(victim)
                ended = place.run("--fresh")
                assert ended.status == EXIT_OK, (how, name, ended.err)
                assert f"{kind} {victim.parent.name[:12]} in the store is damaged" in ended.err, (how, name)
                assert place.manifest()["digest"] == digest, (how, name)
        place.check_nothing_is_left()
    finally:
        shutil.rmtree(store)


@fault("a set's System.map is another kernel's", "`analyse` and `verify`: code 3 and one line; `show` works")
def test_symbols_of_another_kernel_name_no_function(tmp_path):
    place = Place(tmp_path, YAML)
    assert place.run().status == EXIT_OK
    (path,) = place.sets()
    symbols = path / "kernels/classic/System.map"
    address, kind, name = zip(*(line.split(" ", 2) for line in symbols.read_text().splitlines()), strict=True)
    moved = zip(address, kind, name[40:] + name[:40], strict=True)
    symbols.write_text("".join(f"{' '.join(words)}\n" for words in moved))
    for command, status in (("analyse", EXIT_RUN_FAILED), ("verify", EXIT_RUN_FAILED), ("show", EXIT_OK)):
        words = [*PROGRAM, command, str(path)]
        ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
        assert ended.returncode == status, ended.stderr
        told = f"krepro: {symbols}: differs from what was written" if status else ""
        assert ended.stderr.strip() == told, command
    assert place.sets() == [path], "no set was made of them"
