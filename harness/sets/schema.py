# SPDX-License-Identifier: MIT
"""What the models of files say of their fields: the JSON Schema of manifest.json, and tables for the docs."""

from __future__ import annotations

import json

from pydantic import BaseModel

from harness.sets.manifest import Manifest


def manifest_schema() -> str:
    """The schema (draft 2020-12) of a manifest as this version writes it, as text: indented, sorted as the models."""
    schema = Manifest.model_json_schema(mode="serialization")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(head | schema, indent=1, ensure_ascii=False) + "\n"


def fields_table(model: type[BaseModel]) -> list[str]:
    """The fields of a model as a Markdown table: name, unit and meaning."""
    lines = ["| field | what | unit |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        told = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
        meaning = (field.description or "").replace("|", "\\|")
        lines.append(f"| `{name}` | {meaning} | {told.get('unit', '')} |".replace("|  |", "| |"))
    return lines
