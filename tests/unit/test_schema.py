# SPDX-License-Identifier: MIT
"""The manifest's schema: every key explained, and a set of another version refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.errors import UsageError
from harness.paths import ROOT
from harness.sets.manifest import SCHEMA_VERSION, manifest_schema
from harness.sets.resultset import MANIFEST, ResultSet

SET = ROOT / "tests/fixtures/20261121T061822.78Z-d26ba662"
SCHEMA: dict[str, Any] = json.loads(manifest_schema())


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


@pytest.mark.parametrize("version", [None, True, "4", 0, SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
def test_a_manifest_of_another_version_says_who_reads_it(tmp_path, version):
    stored = json.loads((SET / MANIFEST).read_text())
    (tmp_path / MANIFEST).write_text(json.dumps(stored | {"schema_version": version, "surprise": 1}))
    reads = f"this krepro reads version {SCHEMA_VERSION}, got {version!r} \\(use the krepro that made the set\\)"
    with pytest.raises(UsageError, match=f"manifest.json: field schema_version: {reads}"):
        ResultSet(tmp_path)
