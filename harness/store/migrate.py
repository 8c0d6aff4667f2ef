# SPDX-License-Identifier: MIT
"""Manifests of older versions, brought to this one step by step while they are read; files are never changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.errors import UsageError
from harness.measure.verdict import word_of_today
from harness.store.listing import read_plain
from harness.store.manifest import NO_BUILD_ID, NO_DIGEST, SCHEMA_VERSION, Manifest

Json = dict[str, Any]


def load_manifest(path: Path) -> Manifest:
    """The manifest in this file, of any version up to this one.

    UsageError naming file and field when it cannot be understood; OSError when it cannot be read.
    """
    where = str(path)
    try:
        data = json.loads(read_plain(path))
        json.dumps(data, ensure_ascii=False).encode()  # JSON can escape half a surrogate pair, which is no text
    except (ValueError, RecursionError) as error:
        raise UsageError(f"is not JSON: {error}", where=where) from error
    if not isinstance(data, dict):
        raise UsageError("is not a JSON object", where=where)
    try:
        return Manifest.model_validate(migrated(data, where))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "(whole file)"
        raise UsageError(f"field {field}: {first['msg'].removeprefix('Value error, ')}", where=where) from error


def migrated(data: Json, where: str) -> Json:
    """A manifest's JSON as SCHEMA_VERSION has it; `data` itself is left alone. UsageError for an unknown version."""
    version = data.get("schema_version")
    if type(version) is not int or version < 1:
        raise UsageError(f"field schema_version: must be a whole number from 1, got {version!r}", where=where)
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"has schema version {version}, and this krepro knows versions up to {SCHEMA_VERSION}",
            where=where,
            hint="update krepro",
        )
    try:
        for step in range(version, SCHEMA_VERSION):
            data = STEPS[step](data) | {"schema_version": step + 1}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"is no manifest of schema version {version}: {error!r}", where=where) from error
    return data


def _to_2(old: Json) -> Json:
    """Version 2 gives the reason of every null beside it. Version 1 had one of its own for `repository` alone."""
    repository = dict(old["repository"])
    why = repository.pop("reason", None) or "version 1 of the schema did not say"
    if repository["commit"] is None:
        repository["dirty"] = None
    clean = {"diff_sha256": "all is committed"} if repository["dirty"] is False else {}
    return old | {
        "repository": _with_reasons(repository, ("commit", "dirty", "diff_sha256"), why, clean),
        "kernels": {name: _with_reasons(kernel, ("build_id",), NO_BUILD_ID) for name, kernel in old["kernels"].items()},
        "host": _with_reasons(
            {"load_after": None, **old["host"]}, ("governor", "load_after"), "version 1 of the schema did not say"
        ),
        "absent": {} if old["digest"] is not None else {"digest": NO_DIGEST},
    }


def _to_3(old: Json) -> Json:
    """Version 3 says of each claim where its bound comes from; before, nobody wrote that down."""
    claims = [{"because": "version 2 of the schema did not say", **claim} for claim in old["experiment"]["claims"]]
    return old | {"experiment": {**old["experiment"], "claims": claims}}


def _to_4(old: Json) -> Json:
    """Version 4 says how the host's CPUs and KVM were set, and what accelerator had been asked for."""
    why = "version 3 of the schema did not say"
    names = ("hypervisor", "frequency_driver", "turbo", "idle_driver", "idle_states", "kvm")
    host = {**old["host"], **dict.fromkeys(names)}
    return old | {
        "accelerator_asked": None,
        "accelerator_why": {},
        "absent": {**old["absent"], "accelerator_asked": why},
        "host": {**host, "absent": {**old["host"]["absent"], **dict.fromkeys(names, why)}},
    }


def migrated_claims(data: Sequence[Json]) -> list[Json]:
    """The content of claims.json in the words of today: findings were once reproduced or contradicted, like claims."""
    return [claim | {"verdict": word_of_today(claim.get("kind", "paper"), claim["verdict"])} for claim in data]


def _with_reasons(part: Mapping[str, Any], names: tuple[str, ...], why: str, known: Mapping[str, str] = {}) -> Json:
    return {**part, "absent": {name: known.get(name, why) for name in names if part[name] is None}}


#: From each version to the next.
STEPS: dict[int, Callable[[Json], Json]] = {1: _to_2, 2: _to_3, 3: _to_4}
