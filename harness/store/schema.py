# SPDX-License-Identifier: MIT
"""The JSON Schema of manifest.json, from the models. `python -m harness.store.schema` writes the committed file."""

from __future__ import annotations

import json
from pathlib import Path

from harness.paths import ROOT
from harness.store.manifest import SCHEMA_VERSION, Manifest

SCHEMA_FILE = ROOT / "docs" / "schema" / f"manifest-{SCHEMA_VERSION}.json"


def manifest_schema() -> str:
    """The schema (draft 2020-12) of a manifest as this version writes it, as text: indented, sorted as the models."""
    schema = Manifest.model_json_schema(mode="serialization")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(head | schema, indent=1, ensure_ascii=False) + "\n"


def write_schema() -> Path:
    """Write SCHEMA_FILE; its path."""
    SCHEMA_FILE.parent.mkdir(parents=True, exist_ok=True)
    SCHEMA_FILE.write_text(manifest_schema())
    return SCHEMA_FILE


if __name__ == "__main__":
    print(write_schema())
