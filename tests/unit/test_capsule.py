# SPDX-License-Identifier: MIT
"""Capsules: the file and what is in it. That a run is made again from one is in tests/guest/test_capsule.py."""

from __future__ import annotations

import json
import subprocess
import tarfile
import zipfile

import pyarrow
import pytest

from harness.capsule import wheels
from harness.capsule.archive import SUMS, Member, damage, write
from harness.capsule.contents import check_out, run_words
from harness.capsule.crate import capsule_crate
from harness.errors import RunError, UsageError
from harness.sets.resultset import ResultSet
from tests.archives import extract_all
from tests.small_sets import small_experiment, small_set

NAMES = ("empty", "folder/block", "folder/large", "script")


@pytest.fixture
def members(tmp_path):
    folder = tmp_path / "files"
    contents = {
        "empty": b"",
        "folder/block": b"x" * 512,
        "folder/large": bytes(range(256)) * 40,
        "script": b"#!/bin/sh\n",
    }
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "script").chmod(0o755)
    return [Member(name, folder / name) for name in NAMES]


def written(tmp_path, members, name="a.tar.zst"):
    write(tmp_path / name, "capsule", members, 1_700_000_000, tmp_path / SUMS)
    return tmp_path / name


def plain(path) -> bytes:
    with pyarrow.OSFile(str(path)) as raw, pyarrow.CompressedInputStream(raw, "zstd") as stream:
        return bytes(stream.read())


def extracted(path, folder):
    (folder / "plain.tar").write_bytes(plain(path))
    with tarfile.open(folder / "plain.tar") as archive:
        extract_all(archive, folder)
    return folder / "capsule"


def test_a_capsule_is_a_tar_file_whose_sums_sha256sum_reads(tmp_path, members):
    (tmp_path / "out").mkdir()
    folder = extracted(written(tmp_path, members), tmp_path / "out")
    assert sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()) == sorted([SUMS, *NAMES])
    subprocess.run(["sha256sum", "--quiet", "--check", SUMS], cwd=folder, check=True)
    assert (folder / "script").stat().st_mode & 0o111
    assert not (folder / "empty").stat().st_mode & 0o111
    assert damage(tmp_path / "a.tar.zst") is None


def test_equal_members_in_any_order_give_equal_bytes(tmp_path, members):
    one = written(tmp_path, members).read_bytes()
    for member in members:
        member.path.touch()
    assert written(tmp_path, members[::-1], "b.tar.zst").read_bytes() == one


def test_any_flipped_bit_of_a_file_is_told(tmp_path, members):
    whole = written(tmp_path, members).read_bytes()
    told = set()
    for at in range(0, len(whole), 7):
        broken = tmp_path / "broken.tar.zst"
        broken.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        try:
            what = damage(broken)
        except UsageError:
            what = "no capsule"
        if what is None:  # a bit of a header that has no meaning, or of the padding between files
            out = tmp_path / f"out{at}"
            out.mkdir()
            for member in members:
                assert (extracted(broken, out) / member.name).read_bytes() == member.path.read_bytes()
        else:
            told.add(what)
    assert {f"{name} is not what {SUMS} says" for name in ("folder/large",)} <= told
    assert len(told) > 5


def test_a_file_that_was_changed_is_named(tmp_path, members):
    path = written(tmp_path, members)
    data = plain(path)
    at = data.index(b"x" * 512)
    path.write_bytes(pyarrow.Codec("zstd").compress(data[:at] + b"y" + data[at + 1 :], asbytes=True))
    assert damage(path) == f"folder/block is not what {SUMS} says"


def test_a_file_that_is_missing_added_or_cut_off_is_named(tmp_path, members):
    path = written(tmp_path, members)
    codec, data = pyarrow.Codec("zstd"), plain(path)
    with tarfile.open(fileobj=pyarrow.BufferReader(data)) as archive:
        begins = {entry.name: entry.offset for entry in archive}
    last = begins["capsule/script"]
    path.write_bytes(codec.compress(data[:last] + bytes(1024), asbytes=True))
    assert damage(path) == "script is missing"
    path.write_bytes(codec.compress(data[: last + 515], asbytes=True))
    assert damage(path).startswith("cannot be read at script: ")
    again = data[last : last + 1024]
    path.write_bytes(codec.compress(data[:last] + again + again + bytes(1024), asbytes=True))
    assert damage(path) == f"script is not in {SUMS}, or there twice"


@pytest.mark.parametrize("content", [b"", b"no zstd", pyarrow.Codec("zstd").compress(b"no tar" * 200, asbytes=True)])
def test_what_is_no_capsule_is_said(tmp_path, content):
    (tmp_path / "a.tar.zst").write_bytes(content)
    assert damage(tmp_path / "a.tar.zst").startswith("cannot be read at its beginning: ")


def test_a_tar_file_without_sums_is_no_capsule(tmp_path, members):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(members[3].path, "capsule/script")
    (tmp_path / "a.tar.zst").write_bytes(
        pyarrow.Codec("zstd").compress((tmp_path / "a.tar").read_bytes(), asbytes=True)
    )
    with pytest.raises(UsageError, match=f"is no capsule: it does not begin with {SUMS}"):
        damage(tmp_path / "a.tar.zst")


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "root"
    root.mkdir()

    def git(*words):
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        return subprocess.run(["git", *identity, *words], cwd=root, check=True, capture_output=True, text=True).stdout

    git("init", "--quiet")
    commits = []
    for number in range(3):
        (root / "file").write_text(f"{number}\n")
        (root / "tool").write_text("#!/bin/sh\n")
        (root / "tool").chmod(0o755)
        git("add", ".")
        git("commit", "--quiet", "--message", f"number {number}")
        commits.append(git("rev-parse", "HEAD").strip())
    return root, commits


def test_a_checkout_of_an_older_commit_alone(tmp_path, repository):
    root, commits = repository
    assert check_out(commits[1], tmp_path / "a", root) > 1_700_000_000
    assert (tmp_path / "a/file").read_text() == "1\n"
    words = ["git", "-C", str(tmp_path / "a")]
    assert subprocess.check_output([*words, "rev-list", "--all"], text=True).split() == [commits[1]]
    assert not subprocess.check_output([*words, "status", "--short"])
    assert str(root) not in (tmp_path / "a/.git/config").read_text()


def test_checkouts_of_one_commit_are_equal_bit_for_bit(tmp_path, repository):
    root, commits = repository
    for name in "ab":
        check_out(commits[2], tmp_path / name, root)
    files = [
        {p.relative_to(tmp_path / n): p.read_bytes() for p in (tmp_path / n).rglob("*") if p.is_file()} for n in "ab"
    ]
    assert files[0] == files[1]


def test_a_commit_that_is_not_there_is_said(tmp_path, repository):
    with pytest.raises(UsageError, match="has no commit 0123456789ab"):
        check_out("0123456789abcdef0123456789abcdef01234567", tmp_path / "a", repository[0])


@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ("License-Expression: BSD-3-Clause\nLicense: other", "BSD-3-Clause"),
        ("License: MIT", "MIT"),
        ("License: Long\n        text\nClassifier: License :: OSI Approved :: MIT License", "MIT License"),
        ("License: Größe", "Gr\ufffd\ufffd\ufffd\ufffde"),
        ("Name: x", "see its .dist-info folder"),
    ],
)
def test_licences_of_wheels(tmp_path, metadata, told):
    with zipfile.ZipFile(tmp_path / "x-1-py3-none-any.whl", "w") as archive:
        archive.writestr("x-1.dist-info/METADATA", f"Metadata-Version: 2.1\n{metadata}\n")
    assert wheels.licence(tmp_path / "x-1-py3-none-any.whl") == told


@pytest.mark.parametrize("version", ["3.10", "3", "3.x", "2.7", ""])
def test_versions_of_python(version):
    wheels.check_versions(["3.11", "3.13"])
    with pytest.raises(UsageError, match=r"must be 3\.11 or newer"):
        wheels.check_versions(["3.12", version])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("inv --search-root … run experiment=small", []),
        ("inv run small --arms left --results … -s 3", ["--arms", "left", "-s", "3"]),
        ("program.py run … --profile full --executor dask://… --resume", ["--profile", "full"]),
        ("inv run --arms left experiment=small", ["--arms", "left"]),
        ("inv run --results=… small --seed=2", ["--seed=2"]),
    ],
)
def test_words_that_make_a_set_again(line, words):
    assert run_words(line.split()) == words


def test_a_capsules_crate_has_all_parts_and_the_set_in_its_place(tmp_path, members):
    result: ResultSet = small_set(tmp_path / "results", small_experiment(tmp_path / "small"))
    place = f"results/small/{result.manifest.id}"
    parts = [*(Member(f"packages/{m.name}", m.path) for m in members), Member("project/inv", members[0].path)]
    parts += [Member(f"{place}/manifest.json", result.path / "manifest.json")]
    graph = {entity["@id"]: entity for entity in capsule_crate(result, parts, place)["@graph"]}
    assert len(graph) == len(capsule_crate(result, parts, place)["@graph"]), "each once"
    root = graph["./"]
    named = [part["@id"] for part in root["hasPart"]]
    assert set(named) == {"project/", f"{place}/", f"{place}/manifest.json", *(f"packages/{m.name}" for m in members)}
    assert all(name in graph for name in named)
    assert graph[f"{place}/manifest.json"]["sha256"] == parts[-1].sha256
    assert graph["#run"]["result"] == {"@id": f"{place}/"}
    assert graph["project/"]["version"] == result.manifest.repository.commit
    json.dumps(graph)


def test_damage_of_a_capsule_is_an_error_of_verify(tmp_path, members, capsys):
    from harness.commands.verify import verify

    path = written(tmp_path, members)
    assert verify(str(path)) == 0
    data = bytearray(path.read_bytes())
    data[-60] ^= 1
    path.write_bytes(bytes(data[:-40]))
    with pytest.raises(RunError):
        verify(str(path))
