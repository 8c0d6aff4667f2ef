# SPDX-License-Identifier: MIT
"""A manifest in pieces: the bytes and the hash are those of the whole, and what was written is what is read."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from harness.artefacts.store import hash_of
from harness.sets.manifest import Manifest
from harness.sets.resultset import ResultSet
from harness.sets.seal import Each, content_hash, manifest_pieces
from tests.result_sets import experiment_folder, write_set

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=3), values, max_size=4), st.dictionaries(st.text(), st.text(), max_size=3))
def test_pieces_are_those_of_the_whole(rest, files):
    manifest = rest | {"files": files}
    assert "".join(manifest_pieces(manifest)) == json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    assert content_hash(manifest) == hash_of({"files": files, "manifest": manifest | {"id": "", "files": {}}})


@given(st.lists(values, max_size=3))
def test_a_list_may_be_made_while_it_is_written(entries):
    made = {"files": {}, "trials": Each(lambda: iter(entries))}
    whole = {"files": {}, "trials": entries}
    assert "".join(manifest_pieces(made)) == "".join(manifest_pieces(whole))
    assert content_hash(made) == content_hash(whole)


def test_who_writes_a_set_has_what_others_read(tmp_path):
    made = write_set(tmp_path / "results", experiment_folder(tmp_path), {"short": [1.0, 2.0], "wall": [3.0]})
    read = ResultSet(made.path)
    assert read.manifest == made.manifest
    assert [type(value) for _, value in read.manifest] == [type(value) for _, value in made.manifest]
    assert Manifest.model_validate_json(made.manifest.model_dump_json()) == read.manifest
