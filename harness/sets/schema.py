# SPDX-License-Identifier: MIT
"""The JSON Schema of manifest.json, from the models."""

from __future__ import annotations

import json

from harness.sets.manifest import Manifest


def manifest_schema() -> str:
    """The schema (draft 2020-12) of a manifest as this version writes it, as text: indented, sorted as the models."""
    schema = Manifest.model_json_schema(mode="serialization")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(head | schema, indent=1, ensure_ascii=False) + "\n"
