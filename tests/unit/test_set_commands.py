# SPDX-License-Identifier: MIT
"""Finished sets on the command line: shown, drawn again, compared, on a host that has no QEMU."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from harness.cli import terminal
from harness.commands.figures import figures
from harness.commands.show import show
from harness.errors import RunError, UsageError
from harness.report.compared import compare
from harness.report.site import write_report
from harness.sets.resultset import ResultSet
from tests.result_sets import ANALYSIS, YAML, experiment_folder, write_set

VALUES = {"short": [100.0, 101.0, 103.0], "long": [200.0, 210.0, 190.0], "wall": [7.5, None]}
Write = Callable[..., ResultSet]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a set of the experiment `waits`: `yaml` and `analysis` replace its files."""

    def make(values=VALUES, *, yaml: str = YAML, analysis: str = ANALYSIS, **fields: object) -> ResultSet:
        return write_set(tmp_path / "results", experiment_folder(tmp_path, yaml, analysis), values, **fields)

    return make


def noisy(center: float, size: int, spread: float, seed: int) -> list[float]:
    return [float(value) for value in np.random.default_rng(seed).normal(center, spread * center, size)]


def printed(action: Callable[[Console], int]) -> str:
    """What it prints, on the console that it is given or on that of all commands."""
    console = Console(file=StringIO(), width=200)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal, "output", lambda: console)
        assert action(console) == 0
    return console.file.getvalue()


# -- show -----------------------------------------------------------------------------------------------------


def shown(made: ResultSet, width: int = 80, **options: bool) -> str:
    console = Console(file=StringIO(), width=width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal, "output", lambda: console)
        assert show(str(made.path), made.path.parent.parent, **options) == 0
    return console.file.getvalue()


def test_show_prints_what_a_reader_needs_first(write):
    made = write()
    text = shown(made)
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[:4] == [
        "All 2 verdicts are as known",
        "Holds here: 2 of 2 claims of the paper",
        "  ✓ short-enough".ljust(59) + "101 ms expected ≤ 200",
        "  ✓ counted".ljust(59) + "1        expected = 1",
    ]
    assert "Median wait" in text
    assert lines[-6:] == [
        "1 of 8 trials failed and took no part in the figures",
        "timing of 1 of 7 trials is left out: the host disturbed them",
        "8 trials, fidelity emulated, virtual; harness 1 s, guests 2 s",
        f"Report: ./inv report {made.path}",
        f"Next: ./inv show {made.path} --verbose",
        str(made.path),
    ]


def test_show_names_the_report_that_there_is(write):
    made = write()
    page = write_report(made, made.path.parent.parent, None)
    assert page.as_uri() in shown(made).splitlines()


def test_show_verbose_prints_all_tables(write):
    text = shown(write(), verbose=True)
    assert re.search(r"Median wait.*long +200.*short +101.*wall +7\.5.*Claims.*short-enough", text, re.S)


def test_findings_that_are_all_confirmed_are_claims_too(write):
    text = shown(write(yaml=YAML.replace("{id: ", "{kind: finding, id: ")))
    assert "Findings of ours: 2 of 2 confirmed" in text
    assert "No claims" not in text
    assert "No claims" in shown(write(yaml=YAML.partition("claims:")[0]))


@pytest.mark.parametrize("width", [80, 160])
def test_words_are_not_broken_at_any_width(write, width):
    says = "a statement of many words that are longer than a narrow column would hold, thoroughly"
    yaml = YAML.replace("id: short-enough,", f"id: short-enough, paper: {json.dumps(says)},")
    text = shown(write(yaml=yaml), width, verbose=True)
    assert max(map(len, text.splitlines()[:-2])) <= width
    for word in says.split():
        assert re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text), word


def test_show_verbose_prints_the_dictionary(write):
    text = shown(write(), 100, verbose=True)
    assert re.search(r"waits: one trial.*ms +float64 +ms +the wait", text, re.S)
    assert re.search(r"wait_ms +ms +lower +the wait", text)
    assert "problems: one part of a trial" in text


def test_show_executes_nothing_of_the_set(write):
    made = write()
    (made.path / "experiment/analysis.py").write_text("raise SystemExit(9)")
    text = shown(made, verbose=True)
    assert "short-enough" in text
    assert "Median wait" in text


def test_what_shows_a_set_may_fail_and_the_verdicts_stay(write):
    made = write(analysis=ANALYSIS.replace('return {"Median wait": ', 'raise ValueError("no")\n    return {"x": '))
    assert [claim.verdict for claim in made.claims] == ["reproduced", "reproduced"]
    assert not made.shown.summary
    assert [path.name for path in (made.path / "figures").iterdir()] == ["waits.svg"]


def test_show_names_a_damaged_file(write):
    made = write()
    (made.path / "metrics.parquet").write_bytes(b"PAR1")
    with pytest.raises(RunError, match=r"metrics\.parquet: cannot be read: .*verify says"):
        show("latest", made.path.parent.parent, verbose=True)


# -- figures --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["svg", *(pytest.param(form, marks=pytest.mark.deep) for form in ("pdf", "png"))])
def test_figures_are_the_same_every_time(write, tmp_path, form):
    made = write()
    for name in ("a", "b"):
        out = tmp_path / name
        text = printed(lambda _, out=out: figures("latest", form, out, tmp_path / "results"))
        assert text == f"{out / f'waits.{form}'}\n"
    data = (tmp_path / f"a/waits.{form}").read_bytes()
    assert data == (tmp_path / f"b/waits.{form}").read_bytes()
    assert data.startswith({"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}[form])
    if form == "svg":
        assert data == (made.path / "figures/waits.svg").read_bytes()


def test_figures_are_drawn_from_the_stored_tables_only(write, tmp_path, monkeypatch):
    made = write()
    for name in ("raw", "figures", "metrics.parquet"):
        (made.path / name).rename(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    text = printed(lambda _: figures("latest", results=tmp_path / "results"))
    assert text == f"figures/{made.path.name}/waits.svg\n"
    drawn = (tmp_path / "figures" / made.path.name / "waits.svg").read_bytes()
    assert drawn == (tmp_path / "figures/waits.svg").read_bytes()
    assert not list(made.path.rglob("__pycache__"))


@pytest.mark.parametrize("inside", [".", "figures", "figures/more/deep"])
def test_figures_are_not_drawn_into_a_set(write, tmp_path, inside):
    made = write()
    with pytest.raises(UsageError, match="is a result set, which does not change"):
        figures("latest", "svg", made.path / inside, tmp_path / "results")


@pytest.mark.deep
def test_figures_where_there_are_none(write, tmp_path):
    write({"short": [None]})
    with pytest.raises(RunError, match="has no tables to draw from"):
        figures("latest", "svg", tmp_path / "out", tmp_path / "results")
    write(analysis=ANALYSIS.replace('return {"waits": figure}', "return {}"))
    with pytest.raises(RunError, match="draws no figures"):
        figures("latest", "svg", tmp_path / "out", tmp_path / "results")
    write()
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write"):
        figures("latest", "svg", tmp_path / "file", tmp_path / "results")


# -- compare --------------------------------------------------------------------------------------------------


def compared(a: ResultSet, b: ResultSet, *, arms: tuple[str, str] | None = None, force: bool = False) -> str:
    results = a.path.parent.parent
    return printed(lambda console: compare(results, str(a.path), str(b.path), arms, force, console))


def row(text: str, arm: str, metric: str = "wait_ms") -> str:
    (line,) = [line for line in text.splitlines() if re.match(rf"  {arm} +{metric} ", line)]
    return " ".join(line.split())


def test_two_sets_from_one_seed_are_identical(write):
    a, b = write(), write()
    assert a.path != b.path
    text = compared(a, b)
    assert f"identical: both have the digest {a.manifest.digest}" in text
    assert "B against A" not in text, "there is no row to show"
    assert text.splitlines()[-1] == "7 metrics: 6 identical, 1 absent"


def test_trials_that_both_have_are_compared_bit_by_bit(write):
    a = write({"short": [100.0, 101.0]})
    assert "identical in every bit: the virtual-clock trials that both have" in compared(
        a, write({"short": [100.0, 101.0, 102.0]})
    )
    text = compared(a, write({"short": [100.0, 103.0]}, qemu="QEMU 8"))
    assert "not bit for bit equal: raw/short/1/wait differs (input qemu: QEMU 7.2 there, QEMU 8 here)" in text
    assert "no digest to compare" in compared(write({"wall": [1.0]}), write({"wall": [2.0]}))


def test_five_percent_is_told_with_enough_trials(write):
    a, b = (write({"wall": noisy(center, 30, 0.03, seed)}) for center, seed in ((100.0, 1), (105.0, 2)))
    line = row(compared(a, b), "wall")
    ratio, low, high = (float(word) for word in re.search(r"× (\S+) \[(\S+), (\S+)\]", line).groups())
    assert 1.0 < low < ratio < high < 1.1
    assert line.endswith("distinguishable")
    assert "about 0.1 leave out no effect by chance alone" in compared(a, b)


@pytest.mark.parametrize(("size", "more"), [(3, "at least 2 more repetitions"), (4, "at least 1 more repetition")])
def test_five_percent_of_too_few_trials_is_not_told(write, size, more):
    a, b = (write({"wall": noisy(center, size, 0.03, seed)}) for center, seed in ((100.0, 1), (105.0, 2)))
    line = row(compared(a, b), "wall")
    assert line.endswith(f"cannot tell: n too small: {more}")
    assert "[" not in line, "no interval where none can be known"


def test_five_percent_in_much_noise_is_not_told_and_says_what_would(write):
    a, b = (write({"wall": noisy(center, 8, 0.3, seed)}) for center, seed in ((100.0, 1), (105.0, 2)))
    more = re.search(r"cannot tell: n too small: (\d+) more repetitions for ±5 %$", row(compared(a, b), "wall"))
    assert more
    assert 50 < int(more[1]) < 2000


def test_equal_arms_with_many_trials_are_the_same(write):
    a, b = (write({"wall": noisy(100.0, 60, 0.02, seed)}) for seed in (3, 5))
    assert re.search(r"same: within \S+ %$", row(compared(a, b), "wall"))


def test_arms_of_one_set_are_compared(write):
    a = write({"short": noisy(100.0, 10, 0.02, 1), "long": noisy(200.0, 10, 0.02, 2)})
    text = compared(a, a, arms=("short", "long"))
    assert row(text, "short → long").endswith("differs: exact, in 10 pairs of equal seeds")
    assert "identical: both" not in text
    assert "misses" not in text, "what is absent on both sides is only counted"
    assert "3 metrics: 1 differs, 1 identical, 1 absent" in text


@pytest.mark.parametrize(
    ("b", "says"),
    [
        ([1097.6], "× 1.0976 differs: exact, in one pair of equal seeds"),
        ([1097.6, 1097.6, 1097.6], "× 1.0976 differs: exact, in 3 pairs of equal seeds"),
        ([1097.6, 1100, 1200], "× 1.1 [1.0976, 1.2] differs: exact, in 3 pairs of equal seeds"),
        ([1001, 999, 1000], "× 1 [0.999, 1.001] differs: exact, in 3 pairs of equal seeds, some up, some down"),
        ([1000, 1000, 1001, 7], "× 1 [1, 1.001] differs: exact, in 3 pairs of equal seeds"),
        ([0, 1, -1], "− 1000 [-1001, -999] differs: exact, in 3 pairs of equal seeds"),
    ],
)
def test_virtual_trials_of_equal_seeds_are_compared_exactly(write, b, says):
    text = compared(write({"short": [1000.0] * 3}), write({"short": [float(value) for value in b]}))
    assert row(text, "short").endswith(says)
    assert "by chance alone" not in text
    assert "what differs does so exactly, seed by seed" in text


def test_only_virtual_trials_of_equal_seeds_are_compared_exactly(write):
    a, b = ([100.0, 100.0, 101.0], [110.0, 110.0, 111.0])
    assert "cannot tell: n too small" in row(compared(write({"wall": a}), write({"wall": b})), "wall")
    other = write({"short": b})
    manifest = json.loads((other.path / "manifest.json").read_text())
    for trial in manifest["trials"]:
        trial["seed"] += 1000
    (other.path / "manifest.json").write_text(json.dumps(manifest))
    assert "cannot tell: n too small" in row(compared(write({"short": a}), other), "short")


def test_what_is_exact_is_no_interval_that_chance_could_move(write):
    far = [noisy(center, 10, 0.01, seed) for center, seed in ((100.0, 1), (200.0, 2))]
    a, b = (write({"wall": values, "short": [center]}) for values, center in zip(far, (1.0, 2.0), strict=True))
    text = compared(a, b)
    assert row(text, "short").endswith("differs: exact, in one pair of equal seeds")
    assert "of 1 intervals at 95 %" in text


def test_equal_values_of_the_seeds_that_both_have_are_identical(write):
    text = compared(write({"short": [1.0, 2.0]}), write({"short": [1.0, 2.0, 9.0]}))
    assert "wait_ms" not in text
    assert text.splitlines()[-1] == "2 metrics: 2 identical"


def test_what_is_absent_on_one_side_says_why(write):
    gone = ANALYSIS.replace('"wait_ms", row.ms', '"wait_ms", None, reason="was not measured"')
    a, b = write({"wall": [1.0, 2.0]}), write({"wall": [1.0, 2.0]}, analysis=gone)
    assert row(compared(a, b, force=True), "wall").endswith("— 2, 0 — absent: in B: was not measured")
    other = ANALYSIS.replace('fact("wait_ms", "ms"', 'fact("wait_ms", "us"')
    text = compared(a, write({"wall": [1.0, 2.0]}, analysis=other), force=True)
    assert row(text, "wall").endswith("absent: units differ: ms, us")


def test_arms_that_only_one_has_are_told(write):
    text = compared(write({"short": [1.0], "long": [2.0]}), write({"short": [1.0], "wall": [2.0]}))
    assert "only in A: long" in text
    assert "only in B: wall" in text


def refusal(a: ResultSet, b: ResultSet, arms: tuple[str, str] | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        compare(a.path.parent.parent, str(a.path), str(b.path), arms, False, Console(file=StringIO()))
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_another_version_or_experiment_is_refused_unless_forced(write, capsys):
    a = write()
    b = write(analysis=ANALYSIS + "# newer\n")
    said = "versions of the experiment differ: analysis.py differs"
    assert refusal(a, b) == f"{said} (--force compares them all the same)"
    capsys.readouterr()
    assert "identical" in compared(a, b, force=True)
    assert capsys.readouterr().err == f"krepro: warning: {said}\n"
    other = a.manifest.experiment.model_copy(update={"name": "others"})
    assert refusal(a, write(experiment=other)).startswith("experiments differ: waits and others (")


def test_prose_is_no_part_of_an_experiment_s_version(write):
    a = write()
    files = {**a.manifest.experiment_files, "README.md": "0" * 64}
    assert "identical" in compared(a, write(experiment_files=files))


def test_libraries_that_differ_are_told(write):
    a = write()
    assert "library" not in compared(a, a)
    text = compared(a, write(packages={**a.manifest.packages, "krepro": "0123456789ab"}))
    assert f"library krepro differs: {a.manifest.packages['krepro']} in A, 0123456789ab in B" in " ".join(text.split())


def test_two_fidelities_are_never_compared_silently(write, capsys):
    a = write({"wall": [1.0, 2.0], "short": [1.0]})
    b = write({"wall": [1.0, 2.0], "short": [1.0]}, fidelity={"wall": "kvm", "short": "virtual"})
    assert refusal(a, b).startswith("fidelity of wall differs: emulated and kvm (")
    assert refusal(a, a, ("short", "wall")).startswith("fidelity of short and wall differs: virtual and emulated (")
    capsys.readouterr()
    compared(a, b, force=True)
    assert "fidelity of wall differs" in capsys.readouterr().err


def test_arms_that_do_not_exist_are_refused(write):
    a = write()
    assert "unknown arm 'tall' (known: short, long, wall)" in refusal(a, a, ("short", "tall"))
    assert "no arm is in both sets" in refusal(write({"short": [1.0]}), write({"wall": [1.0]}))
