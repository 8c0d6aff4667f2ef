"""What the guest ran, as text, into the same objects that ./inv predict reads from YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .model.cost import Consumer, Counts, Fields, Histogram, Predicate, Probe, Program, Refresh, Script


def words(line: str) -> dict[str, str]:
    """`key=value` words of a line; fetch arguments of probes look like them and are not asked for here."""
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def script(run: Mapping[str, Any]) -> Script:
    """The script of a run with check=1: its probes and consumers, with the firings that were counted without them.

    Counts are per batch: a run's costs are medians over batches.
    """
    batches = len(run["took"])
    lines = run["script"].split("\n")
    blocks: list[tuple[str, list[str]]] = []
    for line in lines[1:]:
        if line.startswith("probe "):
            blocks.append((line, []))
        else:
            blocks[-1][1].append(line)
    frames = run["frames"] or None
    probes = [
        _probe(line, uses, counted, batches, frames)
        for (line, uses), counted in zip(blocks, run["probes"], strict=True)
    ]
    buffers = max([len(uses) for _, uses in blocks], default=1)
    refresh = None
    if "drain" in words(lines[0]):
        refresh = Refresh(wakes=run["wakes"] / batches, pages=run["pages"] / batches, buffers=buffers)
    return Script(workload=counts(run), probes=probes, refresh=refresh)


def counts(run: Mapping[str, Any]) -> Counts:
    """The workload of a run with check=1, per batch."""
    batches = len(run["took"])
    firings = {}
    for line, counted in zip(
        [line for line in run["script"].split("\n") if line.startswith("probe ")], run["probes"], strict=True
    ):
        provider, point = line.split()[1:3]
        if provider != "sample":
            firings[f"{provider} {point}"] = counted["firings"] / batches
    plain = sorted(run["plain"])
    return Counts(
        cost=(plain[batches // 2] + plain[(batches - 1) // 2]) / 2,
        syscalls=run["syscalls"] / batches,
        switches=run["switches"] / batches,
        firings=firings,
    )


def _probe(line: str, uses: Sequence[str], counted: Mapping[str, Any], batches: int, frames: int | None) -> Probe:
    _, provider, target, *arguments = line.split()
    if provider == "sample":
        consumers = [Consumer(stack_frames=frames if "stack=1" in use else None) for use in uses]
        return Probe(provider=provider, point=target, period_ns=float(target), consumers=consumers)
    kinds = [argument.split("=", 1)[1] for argument in arguments if not argument.startswith("maxactive=")]
    comm = sum(kind == "$comm" for kind in kinds)
    memory = sum(kind.startswith("+") for kind in kinds)
    fields = Fields(registers=len(kinds) - comm - memory, memory=memory, comm=comm)
    firings = counted["firings"]
    consumers = [
        _consumer(use, passed / firings if firings else 1.0, frames)
        for use, passed in zip(uses, counted["passes"], strict=True)
    ]
    return Probe(provider=provider, point=target, firings=firings / batches, fields=fields, consumers=consumers)


def _consumer(use: str, passes: float, frames: int | None) -> Consumer:
    options = words(use.removeprefix("use"))
    if "bpf" in options:
        program = Program(instructions=int(options["bpf"]), aggregations=int(options.get("map", "0")))
        return Consumer(program=program)
    histogram = None
    if "hist" in options:
        parts = options["hist"].split(":")
        keys = len(parts[0].split("=")[1].split(","))
        values = sum(len(part.split("=")[1].split(",")) for part in parts if part.startswith("vals="))
        histogram = Histogram(keys=keys, values=values - ("vals=hitcount" in parts))
    return Consumer(
        record=options.get("record", "1") == "1",
        predicate=_predicate(use.split("filter=", 1)[1].split(maxsplit=1)[0], min(passes, 1.0))
        if "filter=" in use
        else None,
        stack_frames=frames if "stack" in options else None,
        histogram=histogram,
    )


def _predicate(text: str, passes: float) -> Predicate:
    """Evaluation ends with the first term that decides: a false one of an and, a true one of an or."""
    ors, ands = text.count("||"), text.count("&&")
    terms = 1 + ors + ands
    if ors:
        return Predicate(terms=terms, passes=passes, terms_if_true=1, terms_if_false=terms)
    return Predicate(terms=terms, passes=passes)
