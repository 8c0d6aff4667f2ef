# SPDX-License-Identifier: MIT
"""RO-Crate 1.1 (https://w3id.org/ro/crate/1.1): the whole set, and beside it what it is in JSON-LD."""

from __future__ import annotations

import json
import mimetypes
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.sets.listing import MANIFEST, METADATA
from harness.sets.manifest import Manifest
from harness.sets.resultset import ResultSet
from harness.sets.seal import verify_files

PROFILE = "https://w3id.org/ro/crate/1.1"
LICENCE = "Unknown: nobody has stated a licence for this result set. Ask its authors before you use it."
_TYPES = {".parquet": "application/vnd.apache.parquet", ".yaml": "application/yaml", ".md": "text/markdown"}
#: Zip files store times; this one is the earliest that they can.
_EPOCH = (1980, 1, 1, 0, 0, 0)

Entity = dict[str, Any]


def write_crate(result: ResultSet, path: Path) -> None:
    """The set with its metadata as a folder, or as a zip file where the name ends in `.zip`.

    The metadata states every file's hash: RunError naming the first file that has another.
    """
    verify_files(result.path)
    metadata = json.dumps(crate(result), indent=1, ensure_ascii=False) + "\n"
    names = [MANIFEST, *sorted(result.manifest.files)]
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_member(METADATA), metadata)
            for name in names:
                with (result.path / name).open("rb") as source, archive.open(_member(name), "w") as target:
                    shutil.copyfileobj(source, target)
        return
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(result.path / name, path / name)
    (path / METADATA).write_text(metadata, encoding="utf-8")


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, _EPOCH)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = 0o644 << 16
    return member


def crate(result: ResultSet) -> Entity:
    """The content of ro-crate-metadata.json."""
    manifest = result.manifest
    files = list(_files(result))
    authors = [_person(name) for name in dict.fromkeys(manifest.experiment.paper.authors)]
    software = list(_software(manifest))
    graph = [
        {
            "@id": METADATA,
            "@type": "CreativeWork",
            "conformsTo": {"@id": PROFILE},
            "about": {"@id": "./"},
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": f"{manifest.experiment.name} {manifest.id}",
            "description": manifest.experiment.description or f"Result set of {manifest.experiment.name}",
            "datePublished": manifest.created,
            "identifier": manifest.id,
            "license": LICENCE,
            "citation": {"@id": "#paper"},
            "hasPart": [{"@id": file["@id"]} for file in files],
            "mentions": {"@id": "#run"},
        },
        _paper(manifest, authors),
        *authors,
        {
            "@id": "#run",
            "@type": "CreateAction",
            "name": " ".join(manifest.command_line),
            "endTime": manifest.created,
            "instrument": [{"@id": tool["@id"]} for tool in software],
            "result": {"@id": "./"},
        },
        *software,
        *files,
    ]
    context = [f"{PROFILE}/context", {"sha256": "https://schema.org/sha256"}]
    return {"@context": context, "@graph": graph}


def _files(result: ResultSet) -> Iterator[Entity]:
    for name, digest in [(MANIFEST, None), *sorted(result.manifest.files.items())]:
        path = result.path / name
        entity: Entity = {"@id": quote(name), "@type": "File", "name": name}
        entity["contentSize"] = str(path.stat().st_size)
        kind = _TYPES.get(path.suffix) or mimetypes.types_map.get(path.suffix)
        if kind is not None:
            entity["encodingFormat"] = kind
        yield entity if digest is None else entity | {"sha256": digest}


def _person(name: str) -> Entity:
    return {"@id": f"#{quote(f'author {name}')}", "@type": "Person", "name": name}


def _paper(manifest: Manifest, authors: list[Entity]) -> Entity:
    paper = manifest.experiment.paper
    entity: Entity = {
        "@id": "#paper",
        "@type": "ScholarlyArticle",
        "name": paper.title,
        "datePublished": str(paper.year),
        "author": [{"@id": author["@id"]} for author in authors],
    }
    return entity if paper.venue is None else entity | {"isPartOf": paper.venue}


def _software(manifest: Manifest) -> Iterator[Entity]:
    """The project at its commit, QEMU, kernels, and the packages that decide figures and files."""
    state = manifest.repository
    version = state.commit or f"unknown: {state.absent['commit']}"
    changed = f", with uncommitted changes (sha256 {state.diff_sha256})" if state.dirty else ""
    yield _tool("krepro", version + changed, "SoftwareSourceCode")
    yield _tool("QEMU", manifest.qemu)
    for name, kernel in manifest.kernels.items():
        yield _tool(f"kernel {name}", f"Linux {kernel.release} ({kernel.arch}), bzImage sha256 {kernel.bzimage_sha256}")
    for name, package in manifest.packages.items():
        yield _tool(name, package) | {"@id": f"#{quote(f'package {name}')}"}  # one is krepro's parts that analyse


def _tool(name: str, version: str, kind: str = "SoftwareApplication") -> Entity:
    key = "version" if kind == "SoftwareSourceCode" else "softwareVersion"
    return {"@id": f"#{quote(f'software {name}')}", "@type": kind, "name": name, key: version}
