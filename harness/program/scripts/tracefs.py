# SPDX-License-Identifier: MIT
"""The state of tracefs, or of a copy of it: what is enabled, with which filters and triggers, in which instances."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.errors import UsageError
from harness.program.scripts.asked import Asked, Event, trace_points
from harness.program.scripts.fetched import Place, defined
from harness.program.scripts.filters import filter_of
from harness.program.scripts.triggers import Triggers, read_trigger

_DEFINITIONS = ("kprobe_events", "uprobe_events", "dynamic_events")
_SILENT = ("", "nop")


def is_tracefs(folder: Path) -> bool:
    return (folder / "events").is_dir()


def read(folder: Path) -> Asked:
    """All that it has enabled, its instances' too. UsageError for files that cannot be read, or are not tracefs's."""
    asked = Asked(f"tracefs in {folder}")
    places: dict[tuple[str, str], Place] = {}
    for name in _DEFINITIONS:
        for line in _text(folder / name).splitlines():
            found = defined(line)
            if found is not None:
                places[found[0], found[1]] = found[2]
    instances = folder / "instances"
    others = sorted(one for one in instances.iterdir() if one.is_dir()) if instances.is_dir() else []
    for one in (folder, *others):
        _instance(asked, one, places)
    if not asked.events and not asked.unpriced:
        raise UsageError("has no event enabled: nothing is traced", where=str(folder))
    if asked.events:
        asked.note("while tracefs records, each switch of tasks may keep a name: that is not in the sum")
    return asked


def _instance(asked: Asked, folder: Path, places: dict[tuple[str, str], Place]) -> None:
    tracer = _text(folder / "current_tracer")
    if tracer not in _SILENT:
        asked.unpriced.append((f"the tracer {tracer}", "the model has no price for what a tracer records"))
    stack = _text(folder / "options" / "stacktrace") == "1"
    found = len(asked.events)
    for event in _events(folder):
        enabled = _text(event / "enable").startswith("1")
        triggers = _triggers(asked, event)
        if not enabled and not triggers.histograms and not triggers.stack:
            continue
        consumer, notes = triggers.consumer(enabled=enabled, stack=stack)
        system, name = event.parts[-2:]
        place = places.get((system, name))
        if place is not None and place.why is None:
            asked.events.append(Event(place.probe, (consumer,), place.fields.numbers, (*place.fields.notes, *notes)))
            continue
        probes = trace_points(system, name) if place is None else place.why or ""
        if isinstance(probes, str):
            asked.unpriced.append((f"{system}:{name}", probes))
        else:
            asked.events += [Event(probe, (consumer,), notes=tuple(notes)) for probe in probes]
    if len(asked.events) > found and _text(folder / "tracing_on") == "0":
        asked.note(f"tracing_on is 0 in {folder.name}: nothing is kept, and it is priced as if it were")
    if _text(folder / "set_event_pid"):
        asked.note(f"set_event_pid of {folder.name}: of some tasks alone; what leaves others out has no price")


def _events(folder: Path) -> Iterator[Path]:
    events = folder / "events"
    for system in sorted(events.iterdir()) if events.is_dir() else []:
        if system.is_dir():
            yield from sorted(one for one in system.iterdir() if one.is_dir())


def _triggers(asked: Asked, event: Path) -> Triggers:
    triggers = Triggers()
    text = _text(event / "filter")
    if text and text != "none":
        triggers.filter = filter_of(text)
    for line in _text(event / "trigger").splitlines():
        if line.strip() and not line.startswith("#"):
            why = read_trigger(line, triggers)
            if why is not None:
                asked.unpriced.append((f"{event.parts[-2]}:{event.parts[-1]}: the trigger {line.strip()}", why))
    return triggers


def _text(path: Path) -> str:
    """Of a file that may lack: kernels and copies differ in what they have."""
    try:
        return path.read_text(errors="replace").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
