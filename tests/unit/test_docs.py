# SPDX-License-Identifier: MIT
"""The documents are true: commands exist, links resolve, fields are complete, and the example is a real experiment."""

from __future__ import annotations

import json
import os
import re
import runpy
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from experiments.probe_cost.model import cost as probecost
from invoke import Collection, Exit, ParseError, Program
from invoke.parser import Parser
from pydantic import BaseModel

import tasks
from harness import errors
from harness.cli import terminal
from harness.cli.declaration import spelled_out
from harness.commands.catalogue import COMMANDS
from harness.commands.optiontables import with_tables
from harness.experiment.elsewhere import Elsewhere, Otherwise
from harness.experiment.expect import Expect
from harness.experiment.model import (
    Arm,
    Claim,
    Experiment,
    Paper,
    Repetitions,
    Workload,
    load_experiment,
)
from harness.experiment.reading import Reading, Sentence
from harness.guest.job import WorkloadCommand, trial_job
from harness.host.attachment import Attachment
from harness.host.kindtrial import Row
from harness.image.programs import build_programs, program_sources
from harness.kernel.load import kernel_names, load_kernel
from harness.kernel.spec import Hardware, KernelSpec, Source
from harness.measure.analysis import Analysis
from harness.measure.claims import METRIC_COLUMNS, ClaimResult, judge
from harness.packages.choice import Package
from harness.paths import ROOT
from harness.report.figures import write_figures
from harness.sets.reference import Reference
from harness.trial.model import TrialRecord
from harness.trial.plan import trial_seed
from harness.trial.prepare import machine_for
from tests.conftest import needs_guest_packages
from tests.records import trial_record

DOCS = ROOT / "docs"
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        ROOT / "results/README.md",
        *DOCS.glob("*.md"),
        *ROOT.glob("experiments/*/README.md"),
        *ROOT.glob("kernel-patches/*/README.md"),
    ]
)
#: What `./inv docs` makes.
CONF = runpy.run_path(str(DOCS / "site/conf.py"))
MADE = {DOCS / place for place in CONF["MADE"]}
PAGES = [page for page in PAGES if page not in MADE]
WRITING, FORMATS = DOCS / "writing-an-experiment.md", DOCS / "file-formats.md"

INTERRUPTS = """\
           CPU0
  0:        {timer}    XT-PIC      timer
 10:          2    XT-PIC      virtio0
ERR:          0
"""


def blocks(page: Path) -> dict[str, str]:
    """Fenced blocks whose first line has a file name behind the language: name to content."""
    return {
        match[1]: match[2]
        for match in re.finditer(r"^```\w+ (\S+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    }


def section(page: Path, heading: str) -> str:
    """The text under a heading, up to the next heading of any level."""
    match = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", page.read_text(), re.MULTILINE | re.DOTALL)
    assert match, f"{page.name} has no heading {heading!r}"
    return match[1]


def first_column(page: Path, heading: str) -> list[str]:
    """What stands in backquotes at the start of each table row under a heading."""
    return re.findall(r"^\| `([^`]+)`", section(page, heading), re.MULTILINE)


# -- the example -------------------------------------------------------------------------------------------


@pytest.fixture
def naps(tmp_path: Path) -> Path:
    """The folder that a reader would make of docs/writing-an-experiment.md."""
    for name, text in blocks(WRITING).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "naps"


def test_the_example_is_an_experiment_whose_machines_are_possible(naps):
    assert {path.name for path in naps.rglob("*") if path.is_file()} == {
        "experiment.yaml",
        "analysis.py",
        "nap.c",
        "collect-timer.sh",
    }
    experiment = load_experiment(naps)
    assert experiment.name == "naps"
    for name, arm in experiment.arms.items():
        assert machine_for(name, arm, load_kernel(arm.kernel, beside=naps), "tcg").fidelity == "virtual"
    programs = program_sources([naps / "guest"])
    assert {f"collect-{name}" for name in experiment.collect} <= programs.keys()
    for workload in experiment.workloads.values():
        assert workload.command.split()[0] in programs


@needs_guest_packages
def test_the_example_compiles_for_every_architecture_and_runs(naps, tmp_path):
    sources = program_sources([naps / "guest"])
    for arch in ("i386", "x86_64"):
        build_programs(arch, sources, tmp_path / arch, tmp_path / "log")
    for script in naps.glob("guest/*.sh"):
        subprocess.run(["sh", "-n", script], check=True)
    done = subprocess.run(
        [tmp_path / "x86_64/nap", "--count", "3"],
        env={**os.environ, "KREPRO_NAP_US": "1000"},
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout)
    assert answer["naps"] == 3
    assert answer["elapsed_ns"] >= 3_000_000
    assert subprocess.run([tmp_path / "x86_64/nap"], capture_output=True, check=False).returncode == 2


def test_the_example_analyses_a_raw_folder(naps, tmp_path):
    experiment = load_experiment(naps)
    took = {"nap-1ms": 9_900_000, "nap-25ms": 30_000_000}
    trials = [
        raw_trial(tmp_path / "set", arm, repetition, model, took[arm] + repetition * 1000)
        for arm, model in experiment.arms.items()
        for repetition in range(3)
    ]
    analysis = Analysis(naps)
    tables = analysis.tables(trials)
    analysis.check(experiment, naps)
    metrics = analysis.metrics(tables, experiment.claims)
    assert set(metrics["metric"]) == {"naps", "nap_ms", "timer_interrupts"}
    assert metrics.loc[metrics["metric"] == "timer_interrupts", "value"].tolist() == [51.0] * 6
    verdicts = {claim.id: claim.verdict for claim in judge(experiment.claims, metrics)}
    assert verdicts == {"all-naps-taken": "reproduced", "one-tick": "reproduced", "no-overshoot": "contradicted"}
    assert [path.name for path in write_figures(analysis.figures(tables, metrics), tmp_path / "figures")] == [
        "naps.svg"
    ]
    assert [len(frame) for frame in analysis.summary(tables, metrics, []).values()] == [2]


def test_the_example_says_why_a_figure_is_absent(naps, tmp_path):
    experiment = load_experiment(naps)
    trial = raw_trial(tmp_path / "set", "nap-1ms", 0, experiment.arms["nap-1ms"], 0, naps=0)
    analysis = Analysis(naps)
    claims = judge(experiment.claims, analysis.metrics(analysis.tables([trial])))
    assert [claim.verdict for claim in claims] == ["contradicted", "not-measurable", "not-measurable"]
    assert claims[1].reason == "no sleep ended"


def raw_trial(root: Path, arm: str, repetition: int, model: Arm, nap_ns: int, naps: int = 50) -> TrialRecord:
    """A trial of the example with the files that a guest would have left."""
    relative = Path("raw") / arm / str(repetition)
    folder = root / relative / "nap"
    folder.mkdir(parents=True)
    (folder / "stdout").write_text(json.dumps({"naps": naps, "elapsed_ns": naps * nap_ns}))
    (folder / "interrupts.before").write_text(INTERRUPTS.format(timer=100))
    (folder / "interrupts.after").write_text(INTERRUPTS.format(timer=151))
    told = {"kernel": model.kernel, "params": model.params, "cmdline": model.cmdline, "workloads": ("nap",)}
    return trial_record(arm, repetition, model.clock, **told).relocated(root)


def test_the_job_shown_is_the_job_of_the_example(naps):
    experiment = load_experiment(naps)
    workload = experiment.workloads["nap"]
    commands = [WorkloadCommand("nap", workload.command, workload.timeout_s, tuple(experiment.collect))]
    job = trial_job(trial_seed(1, 0), experiment.arms["nap-1ms"].params, commands)
    assert f"```sh\n{job}```\n" in section(FORMATS, "Job")


# -- fields ------------------------------------------------------------------------------------------------


#: Pages and headings over tables of a model's fields.
FIELDS: list[tuple[Path, str, type[BaseModel]]] = [
    (WRITING, "Experiment", Experiment),
    (WRITING, "Paper", Paper),
    (WRITING, "Package", Package),
    (WRITING, "Workload", Workload),
    (WRITING, "Repetitions", Repetitions),
    (WRITING, "Arm", Arm),
    (WRITING, "Claim", Claim),
    (WRITING, "Expect", Expect),
    (WRITING, "Reading", Reading),
    (WRITING, "Sentence", Sentence),
    (WRITING, "Elsewhere", Elsewhere),
    (WRITING, "Otherwise", Otherwise),
    (WRITING, "Kernel", KernelSpec),
    (WRITING, "Source", Source),
    (WRITING, "Hardware", Hardware),
    (FORMATS, "claims.json", ClaimResult),
    (FORMATS, "Reference file", Reference),
    (FORMATS, "Cost model", probecost.CostModel),
    (FORMATS, "Provider of a cost model", probecost.Provider),
    (FORMATS, "Cost of a stage", probecost.Cost),
    (FORMATS, "Counts of a workload", probecost.Counts),
    (FORMATS, "Accuracy of a cost model", probecost.Accuracy),
    (FORMATS, "Script of probes", probecost.Script),
    (FORMATS, "Probe", probecost.Probe),
    (FORMATS, "Fields of a probe", probecost.Fields),
    (FORMATS, "Consumer", probecost.Consumer),
    (FORMATS, "Predicate", probecost.Predicate),
    (FORMATS, "Histogram", probecost.Histogram),
    (FORMATS, "Program", probecost.Program),
    (FORMATS, "Call", probecost.Call),
    (FORMATS, "Cost of a call", probecost.CallCost),
    (FORMATS, "Refresh", probecost.Refresh),
    (DOCS / "selftest.md", "Fields of the file", Attachment),
    (DOCS / "selftest.md", "Fields of a row", Row),
]


def test_every_field_has_a_row_and_every_row_is_a_field():
    told = {(page.name, heading): first_column(page, heading) for page, heading, _ in FIELDS}
    assert told == {(page.name, heading): list(model.model_fields) for page, heading, model in FIELDS}


def test_every_model_of_a_file_has_its_place():
    text = CONF["with_fields"](FORMATS.read_text())
    for model in CONF["MODELS"]:
        assert f"<!-- fields of {model.__name__} -->" in FORMATS.read_text()
        rows = [re.search(rf"^\| `{name}` \| (.+?) \|", text, re.MULTILINE) for name in model.model_fields]
        assert all(row and row[1].strip() for row in rows), model
    assert "<!-- fields of" not in text


def test_required_fields_are_said_to_be_required():
    models = {heading: model for page, heading, model in FIELDS if page == WRITING and model is not Source}
    assert len(models) == 14
    for heading, model in models.items():
        rows = re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]+) \|", section(WRITING, heading), re.MULTILINE)
        said = {name for name, default in rows if default == "required"}
        assert said == {name for name, field in model.model_fields.items() if field.is_required()}, heading


def test_stages_of_probes_are_documented_and_the_script_shown_is_one():
    assert first_column(FORMATS, "Stages of a cost model") == list(probecost.stages())
    text = section(FORMATS, "Script of probes").partition("```yaml\n")[2].partition("```")[0]
    assert len(probecost.Script.model_validate(yaml.safe_load(text)).probes) == 2


def test_metric_columns_are_documented():
    assert first_column(FORMATS, "metrics.parquet") == list(METRIC_COLUMNS)


def test_exit_codes_are_documented():
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", section(ROOT / "README.md", "Exit codes"), re.MULTILINE)}
    assert codes == {
        errors.EXIT_OK,
        errors.EXIT_NEWS,
        errors.EXIT_USAGE,
        errors.EXIT_RUN_FAILED,
        terminal.EXIT_INTERRUPTED,
    }


def test_every_kernel_is_listed_with_what_it_is():
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", section(WRITING, "Kernels"), re.MULTILINE)
    assert rows == [(name, load_kernel(name).spec.description) for name in kernel_names()]


# -- commands and links ------------------------------------------------------------------------------------


def printed_commands() -> list[tuple[str, str]]:
    """Every `./inv …` of the pages, in blocks and inline: page, command without `./inv`."""
    found = []
    for page in PAGES:
        for match in re.finditer(r"(?:^|`)\./inv(?= |`|$)([^`#\n]*)", page.read_text(), re.MULTILINE):
            found.append((page.relative_to(ROOT).as_posix(), match[1].strip()))
    return found


def test_the_readmes_excerpt_counts_the_claims_that_there_are():
    claims = load_experiment(ROOT / "experiments/irq-hotspot").claims
    of_paper = [claim for claim in claims if claim.kind == "paper"]
    wrong = sum(claim.known == "contradicted" for claim in of_paper)
    text = (ROOT / "README.md").read_text()
    patterns = (
        r"^Holds here: (\d+) of (\d+) claims of the paper$",
        r"^Does not hold: (\d+) of (\d+) claims of the paper$",
        r"^Not measured in this run: (\d+) claim, (\d+) findings",
        r"^Findings of ours: (\d+) of (\d+) confirmed(?:, (\d+) refuted)?$",
    )
    holds, fails, absent, confirmed = (
        [int(number or 0) for number in re.findall(pattern, text, re.MULTILINE)[0]] for pattern in patterns
    )
    assert holds[1] == fails[1] == len(of_paper) == holds[0] + fails[0] + absent[0]
    assert fails[0] <= wrong
    findings = len(claims) - len(of_paper)
    assert confirmed[1] == findings == confirmed[0] + confirmed[2] + absent[1]


def test_printed_commands_exist_with_their_options():
    assert {told: error for told in printed_commands() if (error := slip_in(told[1]))} == {}


def slip_in(command: str) -> str:
    """What is wrong with the words behind `./inv`; else nothing."""
    contexts = Collection.from_module(tasks).to_contexts()
    words = shlex.split(command)
    words = words[: words.index("|")] if "|" in words else words
    parser = Parser(initial=Program().initial_context, contexts=contexts)
    if words[:1] == ["--help"] or (len(words) == 1 and not words[0].startswith("-")):
        # A command that is only named in a sentence need not have its arguments.
        return "" if words[-1] in parser.contexts else "no such command"
    try:
        parser.parse_argv(spelled_out(words, COMMANDS))
    except (ParseError, Exit) as error:
        return str(error)
    return ""


def test_every_command_and_option_is_documented(tmp_path):
    page = tmp_path / "commands.md"
    page.write_text(with_tables((DOCS / "commands.md").read_text()))
    for context in Collection.from_module(tasks).to_contexts():
        assert context.name is not None
        options = {
            ("--" if len(argument.name) > 1 else "-") + argument.name.strip("_").replace("_", "-")
            for argument in context.args.values()
        }
        assert set(first_column(page, context.name)) == options, context.name


def test_relative_links_resolve():
    assert [link for page in PAGES for link in broken_links(page)] == []


def broken_links(page: Path) -> Iterator[str]:
    """Links of a page to a file or a heading that is not there."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name) if name else page
        if file.resolve() in MADE:
            continue
        if not file.exists():
            yield f"{target} in {page.name}"
        elif anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            if anchor not in slugs:
                yield f"{target} in {page.name}"


# -- promises ----------------------------------------------------------------------------------------------

NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)?::(\w+)`")


def test_every_promise_names_tests_that_exist():
    text = (ROOT / "docs/security.md").read_text()
    promises = text[text.index("## What is promised") : text.index("## What is not promised")]
    rows = [row.split("|")[1:3] for row in promises.splitlines() if row.startswith("| ")][1:]
    assert len(rows) > 10
    for promise, held in rows:
        file, named = "", 0
        for match in NAMED_TEST.finditer(held):
            file = match[1] or file
            named += 1
            assert f"\ndef {match[2]}(" in (ROOT / file).read_text(), f"{file}::{match[2]}"
        assert named, promise
        assert NAMED_TEST.sub("", held).strip() == ""
