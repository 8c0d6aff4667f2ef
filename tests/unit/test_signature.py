# SPDX-License-Identifier: MIT
"""Signed sets: verify says by whom, and no signature fits what was not signed."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from harness.analysis.verification import verify
from harness.commands.sign import sign
from harness.errors import RunError, UsageError
from harness.sets import prune, signature
from harness.sets.resultset import MANIFEST, ResultSet
from harness.sets.signature import signature_file, signed_by
from tests.hostile.made import key, signed, signers
from tests.result_sets import experiment_folder, write_set

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen here")


@pytest.fixture
def made(tmp_path: Path) -> ResultSet:
    return write_set(tmp_path / "results", experiment_folder(tmp_path), {"short": [100.0]})


def told(made: ResultSet, allowed: Path | None) -> str:
    file = io.StringIO()
    assert verify(made.path.parent.parent, str(made.path), Console(file=file, width=200), signers=allowed) == 0
    return file.getvalue().splitlines()[1]


@pytest.mark.deep
def test_verify_says_by_whom(made, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(signature, "SIGNERS", tmp_path / "signers")
    ada, bob = key(tmp_path, "ada"), key(tmp_path, "bob")
    assert told(made, None) == "unsigned"
    signed(made.path, ada)
    assert capsys.readouterr().out.strip() == str(signature_file(made.path))
    allowed = signers(tmp_path, bob=bob, ada=ada)
    for given in (None, allowed):
        assert told(made, given).startswith("signed by ada@example.org (SHA256:")
    signers(tmp_path, bob=bob)
    assert told(made, None).startswith(f"signed by a key that {allowed} does not name (SHA256:")
    allowed.unlink()
    assert told(made, None).startswith(f"signed by a key that {allowed} does not name (SHA256:")
    with pytest.raises(UsageError, match="there is no such file"):
        told(made, tmp_path / "absent")


def test_a_signature_is_of_one_manifest_and_one_purpose(made, tmp_path):
    ada = key(tmp_path, "ada")
    signed(made.path, ada)
    allowed, manifest, beside = signers(tmp_path, ada=ada), made.path / MANIFEST, signature_file(made.path)
    before = manifest.read_text()
    manifest.write_text(json.dumps(json.loads(before) | {"seed": 2}))
    with pytest.raises(UsageError, match=r"\.sig: is no signature of this set's manifest"):
        signed_by(made.path, allowed)
    manifest.write_text(before)
    beside.unlink()
    for namespace in ("file", "krepro"):
        words = ["ssh-keygen", "-q", "-Y", "sign", "-n", namespace, "-f", ada]
        beside.write_bytes(subprocess.run(words, input=before.encode(), capture_output=True, check=True).stdout)
        if namespace == "file":
            with pytest.raises(UsageError, match="is no signature"):
                signed_by(made.path, allowed)
    assert signed_by(made.path, allowed).startswith("signed by ada@example.org")


ARMOUR = b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n"


@pytest.mark.parametrize("content", [b"", b"\0" * 70_000, ARMOUR], ids=["empty", "long", "armour"])
def test_what_is_no_signature_is_an_error(made, content):
    signature_file(made.path).write_bytes(content)
    with pytest.raises(UsageError, match=r"\.sig: is no signature"):
        signed_by(made.path, None)


def test_a_signature_that_is_a_pipe_holds_nobody(made):
    os.mkfifo(signature_file(made.path))
    assert signed_by(made.path, None) == "unsigned"


def test_a_damaged_set_is_not_signed(made, tmp_path):
    (made.path / "raw/short/0/wait").write_text("1")
    with pytest.raises(RunError, match="raw/short/0/wait: differs from what was written"):
        signed(made.path, key(tmp_path, "ada"))
    assert not signature_file(made.path).exists()


def test_what_is_no_key_is_named(made, tmp_path):
    (tmp_path / "key").write_text("none")
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(UsageError, match=r"key: cannot sign: .*KREPRO_SIGNING_KEY names an ssh key"):
        signed(made.path, tmp_path / "key")


def test_a_signature_goes_with_its_set(made, tmp_path):
    signed(made.path, key(tmp_path, "ada"))
    prune.remove(made.path)
    assert [path.name for path in made.path.parent.iterdir() if not path.is_symlink()] == []


def test_without_a_key_it_says_which_setting_names_one(made, monkeypatch, tmp_path):
    monkeypatch.delenv("KREPRO_SIGNING_KEY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=r"no key to sign with \(KREPRO_SIGNING_KEY="):
        sign(str(made.path), made.path.parent.parent)
