# SPDX-License-Identifier: MIT
"""The manifest's schema: committed as the models are, every key explained, and old sets readable where they lie."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.build.store import hash_of, hash_tree
from harness.errors import UsageError
from harness.paths import ROOT
from harness.store.manifest import SCHEMA_VERSION
from harness.store.migrate import STEPS, load_manifest, migrated
from harness.store.resultset import MANIFEST, ResultSet
from harness.store.schema import SCHEMA_FILE, manifest_schema
from harness.store.seal import verify_files

OLD = ROOT / "tests/fixtures/20261121T061822.78Z-72ebb59f"
SCHEMA: dict[str, Any] = json.loads(manifest_schema())


def test_the_committed_schema_is_that_of_the_models():
    assert SCHEMA_FILE.read_text() == manifest_schema(), "python -m harness.store.schema writes it"


def test_every_version_has_a_schema_and_a_step_to_the_next():
    known = range(1, SCHEMA_VERSION + 1)
    assert {path.name for path in SCHEMA_FILE.parent.iterdir()} == {f"manifest-{version}.json" for version in known}
    assert list(STEPS) == list(known)[:-1]


def properties() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for name, part in {"Manifest": SCHEMA, **SCHEMA["$defs"]}.items():
        for key, value in part["properties"].items():
            yield f"{name}.{key}", value, part


def types(schema: dict[str, Any]) -> set[str]:
    """Names of all JSON types that a value of this schema may have, at any depth but in other models."""
    found = {schema["type"]} if isinstance(schema.get("type"), str) else set()
    found |= {"string" if isinstance(schema["const"], str) else "integer"} if "const" in schema else set()
    for inner in [*schema.get("anyOf", []), *schema.get("prefixItems", [])]:
        found |= types(inner)
    for key in ("items", "additionalProperties", "patternProperties"):
        inner = schema.get(key)
        if isinstance(inner, dict):
            found |= set().union(*map(types, inner.values())) if key == "patternProperties" else types(inner)
    return found


def test_every_key_has_a_type_a_meaning_a_unit_and_a_reason_when_absent():
    keys = list(properties())
    assert len(keys) > 150
    for name, key, part in keys:
        found = types(key)
        assert found or "$ref" in str(key), f"{name}: a type"
        assert key["description"], name
        assert bool({"integer", "number"} & found) == ("unit" in key), name
        if "null" in found:
            assert "absent" in part["properties"] or "null: " in key["description"], name


def test_a_set_of_version_1_is_read_as_the_current_version():
    result = ResultSet(OLD)
    manifest = result.manifest
    assert manifest.schema_version == SCHEMA_VERSION
    assert manifest.id == OLD.name
    assert (manifest.repository.commit, manifest.repository.dirty) == (None, None)
    unsaid = "version 1 of the schema did not say"
    assert manifest.repository.absent == dict.fromkeys(("commit", "dirty", "diff_sha256"), unsaid)
    later = ("hypervisor", "frequency_driver", "turbo", "idle_driver", "idle_states", "kvm")
    unsaid_either = dict.fromkeys(later, "version 3 of the schema did not say")
    assert manifest.host.absent == {"governor": unsaid, "load_after": unsaid, **unsaid_either}
    assert manifest.kernels["classic"].absent == {"build_id": "vmlinux has no GNU build id note"}
    assert manifest.absent == {"accelerator_asked": "version 3 of the schema did not say"}
    assert (manifest.accelerator_asked, manifest.accelerator_why) == (None, {})
    assert [claim.verdict for claim in result.claims] == ["reproduced", "not-measurable"]


def test_reading_an_old_set_leaves_it_as_it_was():
    before = hash_tree(OLD)
    verify_files(OLD)
    assert hash_tree(OLD) == before
    stored = json.loads((OLD / MANIFEST).read_text())
    assert stored["schema_version"] == 1
    files = stored["files"]
    content = hash_of({"files": files, "manifest": stored | {"id": "", "files": {}}})
    assert OLD.name.endswith(content[:8]), "the name is of what is stored, not of what it is read as"


@pytest.fixture
def stored() -> dict[str, Any]:
    return json.loads((OLD / MANIFEST).read_text())


def test_a_migration_does_not_change_what_it_is_given(stored):
    given = json.dumps(stored)
    assert migrated(stored, "x") != stored
    assert json.dumps(stored) == given
    assert migrated(migrated(stored, "x"), "x") == migrated(stored, "x")


@pytest.mark.parametrize(
    ("repository", "absent"),
    [
        ({"commit": "1", "dirty": False, "diff_sha256": None, "reason": None}, {"diff_sha256": "all is committed"}),
        ({"commit": "1", "dirty": True, "diff_sha256": "2", "reason": None}, {}),
        (
            {"commit": None, "dirty": False, "diff_sha256": None, "reason": "no git"},
            {"commit": "no git", "dirty": "no git", "diff_sha256": "no git"},
        ),
    ],
)
def test_the_reason_of_version_1_goes_where_it_belongs(tmp_path, stored, repository, absent):
    stored |= {"repository": repository, "digest": None}
    (tmp_path / MANIFEST).write_text(json.dumps(stored))
    manifest = load_manifest(tmp_path / MANIFEST)
    assert manifest.repository.absent == absent
    assert manifest.absent["digest"] == "no good trial on the virtual clock"


def test_a_newer_manifest_says_to_update(tmp_path: Path, stored):
    (tmp_path / MANIFEST).write_text(json.dumps(stored | {"schema_version": SCHEMA_VERSION + 1, "surprise": 1}))
    known = f"this krepro knows versions up to {SCHEMA_VERSION} \\(update krepro\\)"
    with pytest.raises(UsageError, match=f"manifest.json: has schema version {SCHEMA_VERSION + 1}, and {known}"):
        ResultSet(tmp_path)
