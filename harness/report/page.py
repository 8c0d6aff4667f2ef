# SPDX-License-Identifier: MIT
"""The report on one result set: a single HTML file that needs nothing else."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from harness.measure.claims import ClaimResult
from harness.measure.dimensions import dimensions_of
from harness.measure.rows import METRIC_COLUMNS
from harness.measure.verdict import VERDICTS
from harness.report.columns import column_frame, metric_frame
from harness.report.html import TableView, render, table_view
from harness.report.reproduce import reproduction
from harness.report.short import short
from harness.report.summary import remark_lines, set_lines, unanalysed_line
from harness.report.terminal import fidelity_of, measured
from harness.sets.manifest import Manifest
from harness.sets.provenance import Host
from harness.sets.resultset import ResultSet
from harness.sets.shown import ShownTable
from harness.trial.model import TrialRecord

#: Rows of a stored table that the page shows; a browser sorts that many at once, and all are in the set.
MAX_ROWS = 200


@dataclass(frozen=True)
class NamedTable:
    """A table with its heading, and where all of it is."""

    title: str
    view: TableView
    file: str | None = None


def set_page(result: ResultSet, index: str | None = None) -> str:
    """The HTML of one set's report; `index` is a link back. Equal sets give equal text.

    Nothing of the set is executed. RunError when a file of the set cannot be read.
    """
    manifest = result.manifest
    claims = result.claims
    tables = result.tables
    figures = _figures(result.path)
    first = _first_figure(manifest, figures)
    return render(
        "set.html.j2",
        manifest=manifest,
        index=index,
        groups=_claim_groups(claims, manifest.trials),
        reading=manifest.experiment.reading,
        elsewhere=manifest.experiment.elsewhere,
        by_id={claim.id: claim for claim in claims},
        unjudged=_unjudged(manifest),
        notes=set_lines(result),
        short=short(manifest.experiment, claims),
        first=first,
        remarks=remark_lines(result, claims),
        after_data=[claim.id for claim in claims if claim.after_data],
        dictionary=_dictionary(result),
        counts=[(verdict, count) for verdict in VERDICTS if (count := sum(one.verdict == verdict for one in claims))],
        failed=[trial for trial in manifest.trials if trial.status == "failed"],
        figures=[one for one in figures if one != first],
        paper=_shown(result.shown.paper),
        summary=_shown(result.shown.summary),
        metrics=_metrics(result),
        tables=[
            NamedTable(name, table_view(frame, MAX_ROWS), f"tables/{name}.parquet") for name, frame in tables.items()
        ],
        trials=table_view(_trials(manifest), len(manifest.trials)),
        provenance=_provenance(manifest),
        kernels=manifest.kernels,
        images=manifest.images,
        reproduction=reproduction(result),
    )


def _unjudged(manifest: Manifest) -> str:
    """Why a set without verdicts has none."""
    if any(trial.status == "ok" for trial in manifest.trials):
        return unanalysed_line(manifest) if manifest.unanalysed else "The experiment makes no claims."
    return "No trial succeeded, so no claim was judged."


def _claim_groups(
    claims: Sequence[ClaimResult], trials: Sequence[TrialRecord]
) -> list[tuple[str, list[tuple[ClaimResult, str, str, str]]]]:
    """Heading, and claim by claim: the claim, where it comes from, what was measured, with what fidelity."""
    groups = []
    for kind, title in (("paper", "What the paper claims"), ("finding", "What we found about its method")):
        rows = [
            (
                claim,
                f"§ {claim.section}" if claim.section else claim.source or "",
                measured(claim),
                fidelity_of(claim, trials),
            )
            for claim in claims
            if claim.kind == kind
        ]
        if rows:
            groups.append((title, rows))
    return groups


def _figures(folder: Path) -> list[tuple[str, str]]:
    """Name and data URL of each figure."""
    return [(path.stem, data_url(path)) for path in sorted((folder / "figures").glob("*.svg"))]


def data_url(svg: Path) -> str:
    """A figure as a page has it: as an image, an SVG runs no script and its ids meet no other figure's."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.read_bytes()).decode()}"


def _first_figure(manifest: Manifest, figures: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """The figure that experiment.yaml names, else the first there is; None where there is none."""
    named = [one for one in figures if one[0] == manifest.experiment.paper.figure]
    return next(iter([*named, *figures]), None)


def _shown(tables: Sequence[ShownTable]) -> list[NamedTable]:
    return [NamedTable(table.title, table_view(table.frame, MAX_ROWS)) for table in tables]


def _dictionary(result: ResultSet) -> list[NamedTable]:
    """What every metric and every column means; none in sets that are older than declarations."""
    frames = {"Metrics": metric_frame(result.declared_metrics)} if result.declared_metrics else {}
    frames |= {f"{table.name}: {table.meaning}": column_frame(table) for table in result.declared_tables}
    return [NamedTable(title, table_view(frame, len(frame))) for title, frame in frames.items()]


def _metrics(result: ResultSet) -> TableView | None:
    """Every metric of every arm: median and range over its trials. Intervals are those of the claims."""
    frame = result.metrics
    if frame.empty:
        return None
    dimensions = dimensions_of(frame, METRIC_COLUMNS)
    table = (
        frame.groupby(["metric", "arm"], sort=True)
        .agg(
            trials=("value", "size"),
            measured=("value", "count"),
            median=("value", "median"),
            least=("value", "min"),
            most=("value", "max"),
            unit=("unit", "first"),
            why_absent=("reason", "first"),
            **{name: (name, "first") for name in dimensions},
        )
        .reset_index()
        .rename(columns={"why_absent": "why absent"})
    )
    table.insert(2, "fidelity", table["arm"].map(result.manifest.fidelity))
    for place, name in enumerate(dimensions, start=2):
        table.insert(place, name, table.pop(name))
    return table_view(table, len(table))


def _trials(manifest: Manifest) -> pd.DataFrame:
    dimensions = dict.fromkeys(name for trial in manifest.trials for name in trial.dimensions if name != "kernel")
    return pd.DataFrame(
        [
            {
                "arm": trial.arm,
                **{name: trial.dimensions.get(name) for name in dimensions},
                "repetition": trial.repetition,
                "seed": trial.seed,
                "status": trial.status,
                "clock": trial.clock,
                "session": trial.session,
                "fidelity": trial.fidelity,
                "kernel": trial.kernel,
                "workloads": " ".join(trial.workloads),
                **{f"{name} s": seconds for name, seconds in trial.seconds.items()},
                "PMU": trial.pmu,
            }
            for trial in manifest.trials
        ]
    )


def _provenance(manifest: Manifest) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Groups of name and value, for the page's definition lists."""
    repository, host = manifest.repository, manifest.host
    fidelities = Counter(f"{trial.fidelity} ({manifest.accelerator.get(trial.arm)})" for trial in manifest.trials)
    return [
        (
            "Run",
            [
                ("result set", manifest.id),
                ("created (UTC)", manifest.created),
                ("command", " ".join(manifest.command_line)),
                ("profile", manifest.profile),
                ("seed", manifest.seed),
                ("seeds of the trials", ", ".join(str(s) for s in sorted({t.seed for t in manifest.trials}))),
                ("fidelity (accelerator)", ", ".join(f"{name}: {n} trials" for name, n in sorted(fidelities.items()))),
                ("accelerator asked for", _told(manifest, "accelerator_asked")),
                *((f"{arm} under TCG", why) for arm, why in manifest.accelerator_why.items()),
                ("wall time", ", ".join(f"{name} {value:.1f} s" for name, value in manifest.seconds.items())),
                ("digest", manifest.digest or "none: no virtual-clock trials"),
                ("schema version", manifest.schema_version),
            ],
        ),
        (
            "Project",
            [
                ("commit", repository.commit or f"absent: {repository.absent['commit']}"),
                ("uncommitted changes", f"yes, sha256 {repository.diff_sha256}" if repository.dirty else "none"),
                ("experiment version", manifest.experiment.version),
            ],
        ),
        (
            "Host",
            [
                ("CPU", host.cpu),
                ("CPUs usable", host.cpus),
                ("a virtual machine itself", _told(host, "hypervisor")),
                ("frequency governor", _told(host, "governor")),
                ("frequency driver", _told(host, "frequency_driver")),
                ("turbo", _told(host, "turbo")),
                ("idle driver", _told(host, "idle_driver")),
                ("idle states", _told(host, "idle_states")),
                ("KVM parameters", _told(host, "kvm")),
                ("kernel", host.kernel),
                ("memory", f"{host.memory_mib} MiB"),
                ("load before, after", f"{_load(host.load_before)}, {_load(host.load_after)}"),
                ("QEMU", manifest.qemu),
                ("tools", manifest.tools or "not recorded"),
            ],
        ),
        ("Packages", list(manifest.packages.items())),
    ]


def _told(part: Manifest | Host, name: str) -> str:
    """A field as text, or that it is absent and why."""
    value = getattr(part, name)
    if value is None:
        return f"absent: {part.absent[name]}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key}={text}" for key, text in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)


def _load(value: float | None) -> str:
    """A load, or that there is none."""
    return "absent" if value is None else f"{value:g}"
