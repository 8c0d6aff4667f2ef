"""Figures: one style for all experiments, vector files that come out the same every time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.figure import Figure

Format = Literal["svg", "pdf", "png"]

#: Readable in grey and in print; a fixed salt keeps element ids of SVG files equal from run to run.
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "krepro",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
METADATA: dict[Format, dict[str, str | None]] = {
    "svg": {"Date": None, "Creator": "krepro"},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": "krepro", "Producer": "krepro"},
    "png": {"Software": "krepro"},
}


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw and write figures in the project's one style."""
    with mpl.rc_context(STYLE):
        yield


def write_figures(figures: Mapping[str, Figure], folder: Path, form: Format = "svg") -> list[Path]:
    """Write each figure to `folder`/NAME.form, byte-identical for equal figures; the paths written."""
    if not figures:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with figure_style():
        for name, figure in figures.items():
            path = folder / f"{name}.{form}"
            figure.savefig(path, format=form, metadata=METADATA[form], dpi=150)
            written.append(path)
    return written
