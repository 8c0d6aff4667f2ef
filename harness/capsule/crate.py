# SPDX-License-Identifier: MIT
"""RO-Crate metadata of a capsule: the set's, with the capsule as the root and all its parts in it."""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from urllib.parse import quote

from harness.capsule.archive import Member
from harness.sets.export.crate import Entity, crate
from harness.sets.resultset import ResultSet

LICENCE = "Several: see LICENCES.md"
_TYPES = {".deb": "application/vnd.debian.binary-package", ".whl": "application/zip", ".md": "text/markdown"}


def capsule_crate(result: ResultSet, members: Sequence[Member], place: str) -> Entity:
    """The content of ro-crate-metadata.json for a capsule with these members, whose set is in the folder `place`.

    The project's files are one part, its folder: git and SHA256SUMS know them one by one.
    """
    made = crate(result)
    parts = [entity for member in members if not member.name.startswith("project/") for entity in [_file(member)]]
    project: Entity = {
        "@id": "project/",
        "@type": ["Dataset", "SoftwareSourceCode"],
        "name": "krepro",
        "version": result.manifest.repository.commit,
    }
    results: Entity = {"@id": f"{quote(place)}/", "@type": "Dataset", "name": f"result set {result.manifest.id}"}
    results["hasPart"] = [{"@id": part["@id"]} for part in parts if part["@id"].startswith(results["@id"])]
    graph = [entity for entity in made["@graph"] if entity["@type"] != "File"]
    for entity in graph:
        if entity["@id"] == "./":
            entity["name"] = f"Capsule of {entity['name']}"
            entity["license"] = LICENCE
            entity["hasPart"] = [{"@id": part["@id"]} for part in (project, results, *parts)]
        elif entity["@id"] == "#run":
            entity["result"] = {"@id": results["@id"]}
            entity["instrument"].append({"@id": "project/"})
    return {**made, "@graph": [*graph, project, results, *parts]}


def _file(member: Member) -> Entity:
    entity: Entity = {
        "@id": quote(member.name),
        "@type": "File",
        "name": member.name,
        "contentSize": str(member.path.stat().st_size),
        "sha256": member.sha256,
    }
    kind = _TYPES.get(member.path.suffix) or mimetypes.types_map.get(member.path.suffix)
    return entity | {"encodingFormat": kind} if kind else entity
