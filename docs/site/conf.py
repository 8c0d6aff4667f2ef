# SPDX-License-Identifier: MIT
"""Sphinx' settings for the site of the docs: the pages as they lie in the project, those that are made of what the code
declares, and a figure of each dossier.

`./inv docs` builds it. docs/README.md is its first page and its only list of pages: a heading there with links is a
group of the navigation. Nothing is fetched by who reads it.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import harness
from harness.commands.optiontables import with_tables
from harness.paths import ROOT
from harness.report.figures import write_figures
from harness.report.junit import Suite
from harness.report.kernels import packaged_page
from harness.report.night import Night
from harness.sets.manifest import ImageManifest, KernelManifest, Manifest, Planned, fields_table, manifest_schema
from harness.sets.provenance import Host, Repository
from harness.sets.values import Value, Values
from harness.trial.model import TrialRecord
from tests.claims_page import claims_page
from tests.dictionary_page import dictionary_page
from tests.golden import unpack
from tests.reliability_page import page as reliability_page

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project, author, copyright = "krepro", "krepro contributors", "krepro contributors"  # noqa: A001  (Sphinx' name)
version = release = harness.__version__
extensions = ["myst_parser"]
root_doc = FIRST = "docs/README"
PAGES = ("*.md", "docs/*.md", "experiments/*/README.md", "kernel-patches/*/README.md", "results/README.md")
include_patterns = list(PAGES)
exclude_patterns = [".*", "results/*/*", "site", "tests", "harness", "images"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # Mermaid's text is shown as text

html_theme = "furo"
html_title = "krepro"
html_copy_source = html_use_index = html_show_search_summary = False
html_static_path = ["style.css"]
html_css_files = ["style.css"]

#: Of each dossier the figure that shows what it is about.
FIGURES = {
    "irq-hotspot": ("handler-time", "An interrupt handler's time: known, and by samples inside of it"),
    "page-trace": ("access-model", "Which pages programs visit, and when"),
    "shim": ("timeline", "Which thread runs: seen from another CPU, and by the scheduler"),
    "lock-trace": ("pair-cost-virtual", "What a traced pair of acquire and release costs"),
    "probe-cost": ("predicted-virtual", "Cost of a trace: predicted, and measured"),
}
#: Pages that are made, by their place in docs/; git ignores them.
MADE = {
    "claims.md": claims_page,
    "dictionary.md": dictionary_page,
    "kernels.md": packaged_page,
    "reliability.md": reliability_page,
    "schema/manifest.json": manifest_schema,
}
#: Whose fields docs/file-formats.md tells; of each there is one place.
MODELS = (
    *(Manifest, Repository, Planned, KernelManifest, ImageManifest, Host, TrialRecord),
    *(Values, Value, Night, Suite),
)
LINK = re.compile(r"^- \[([^\]]+)\]\(([^)]+)\):? ?(.*(?:\n  .*)*)", re.MULTILINE)


def pages_of(text: str) -> dict[str, list[tuple[str, str, str]]]:
    """Heading to the links of its list, as name, target and the sentence behind it; of headings that have some."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    groups = {head: LINK.findall(body) for head, body in zip(parts[::2], parts[1::2], strict=True)}
    return {head: links for head, links in groups.items() if links}


def make(_app: Sphinx) -> None:
    """Write the pages that are made, before Sphinx looks for pages."""
    for place, text in MADE.items():
        page = ROOT / "docs" / place
        page.parent.mkdir(exist_ok=True)
        page.write_text(text())


def with_fields(text: str) -> str:
    """The page with the table of each model that it names."""
    models = {model.__name__: model for model in MODELS}
    return re.sub(r"^<!-- fields of (\w+) -->$", lambda one: "\n".join(fields_table(models[one[1]])), text, flags=re.M)


def read(_app: Sphinx, name: str, source: list[str]) -> None:
    """The first page gets its gallery and the navigation, a dossier its figure, the page of commands its tables."""
    if name == "docs/commands":
        source[0] = with_tables(source[0])
    if name == "docs/file-formats":
        source[0] = with_fields(source[0])
    if name == FIRST:
        groups = pages_of(source[0])
        for head, links in groups.items():
            names = "\n".join(f"{title} </docs/{target}>" for title, target, _ in links)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {head}\n\n{names}\n```\n"
        source[0] = LINK.sub(card, source[0])
    elif (folder := name.split("/"))[0] == "experiments" and folder[1] in FIGURES:
        head, _, rest = source[0].partition("\n")
        source[0] = f"{head}\n\n{picture(folder[1], '../../')}\n{rest}"


def card(link: re.Match[str]) -> str:
    """A link of the first page's list; of a dossier as a card with its figure."""
    name, target, says = link.groups()
    if name not in FIGURES:
        return link[0]
    return f"- [{name}]({target}): {says}\n\n  {picture(name, '../')}\n"


def picture(name: str, up: str) -> str:
    """A dossier's figure in HTML."""
    says = f"{FIGURES[name][1]}; from the few trials that the tests keep"
    return f'<img class="figure" src="{up}_static/figures/{name}.svg" alt="{says}" title="{says}">'


def draw(app: Sphinx) -> None:
    """The figures, from the trials that the tests of the analyses have."""
    folder = Path(app.outdir) / "_static" / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (wanted, _) in FIGURES.items():
        with tempfile.TemporaryDirectory() as scratch:
            golden = unpack(name, Path(scratch) / "set")
            tables = golden.tables()
            figures = golden.analysis.figures(tables, golden.metrics(tables))
            (path,) = write_figures({wanted: figures[wanted]}, Path(scratch) / "figures")
            path.rename(folder / f"{name}.svg")


def begin(app: Sphinx, error: Exception | None) -> None:
    """A page where a server or a person looks first."""
    if error is None:
        draw(app)
        target = f"{FIRST}.html"
        page = f'<!doctype html><meta http-equiv="refresh" content="0; url={target}"><a href="{target}">krepro</a>\n'
        (Path(app.outdir) / "index.html").write_text(page)


def setup(app: Sphinx) -> None:
    """What Sphinx calls."""
    app.connect("builder-inited", make)
    app.connect("source-read", read)
    app.connect("build-finished", begin)
