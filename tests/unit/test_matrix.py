# SPDX-License-Identifier: MIT
"""Matrices: arms from dimensions, what the command line makes of them, and where mistakes are told."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.experiment.matrix import parse_chosen
from harness.experiment.model import Experiment, load_experiment
from harness.guest.job import trial_job
from harness.trial.plan import make_plan, trial_seed, workload_order
from tests.unit.test_docs import DOCS, WRITING, blocks, section

YAML = """\
name: copies
paper: {authors: [Nobody], year: 2024, title: Copies}
workloads:
  copy: {command: "copy $KREPRO_MIB"}
  wait: {command: "sleep 1"}
arms:
  plain: {kernel: classic}
  copy:
    clock: virtual
    params: {blocks: "{mib}", label: "m{mib}-{method}", other: 3}
    cmdline: {mem: "{mib}M"}
    matrix:
      kernel: [classic, modern-6.1]
      method: [read, mmap]
      mib: [1, 2, 0.5]
claims:
  - {id: one, metric: m/copy.classic.read.mib-1, expect: {equals: 1}, because: so}
  - {id: lin, metric: m/copy, across: {slope: mib, scale: log-log}, expect: {equals: 1}, because: so}
"""
MATRIX_LINE = YAML.splitlines().index("    matrix:") + 1


def load(folder: Path, text: str = YAML, **chosen: list[str]) -> Experiment:
    (folder / "experiment.yaml").write_text(text)
    (folder / "analysis.py").write_text("")
    return load_experiment(folder, chosen)


@pytest.fixture
def copies(tmp_path: Path) -> Experiment:
    return load(tmp_path)


# -- arms --------------------------------------------------------------------------------------------------


def test_ten_lines_of_the_docs_are_48_arms_and_as_many_trials(tmp_path):
    text = blocks(DOCS / "matrix.md")["copies/experiment.yaml"]
    snippet = section(WRITING, "Matrix").split("```yaml\n")[1].split("```")[0]
    assert snippet.strip() in text
    assert len(snippet.strip().splitlines()) <= 10
    experiment = load(tmp_path, text)
    assert len(experiment.arms) == 48
    plan = make_plan(experiment)
    assert sorted(trial.arm for trial in plan) == sorted(experiment.arms)
    assert {trial.seed for trial in plan} == {trial_seed(1, 0)}
    assert [trial.arm for trial in plan] != list(experiment.arms), "in the order of the matrix"
    places = Counter(tuple(arm.dimensions) for arm in experiment.arms.values())
    assert places == {("kernel", "method", "kib"): 48}


def test_arms_have_names_places_and_parameters(copies):
    assert list(copies.arms)[:3] == ["plain", "copy.classic.read.mib-1", "copy.classic.read.mib-2"]
    assert len(copies.arms) == 1 + 2 * 2 * 3
    arm = copies.arms["copy.modern-6.1.mmap.mib-0.5"]
    assert (arm.kernel, arm.clock, arm.group) == ("modern-6.1", "virtual", "copy")
    assert arm.dimensions == {"kernel": "modern-6.1", "method": "mmap", "mib": 0.5}
    assert arm.params == {"blocks": 0.5, "label": "m0.5-mmap", "other": 3, "method": "mmap", "mib": 0.5}
    assert arm.cmdline == {"mem": "0.5M"}
    assert "KREPRO_MIB=0.5\n" in trial_job(1, arm.params, [])
    assert (copies.arms["plain"].group, copies.arms["plain"].dimensions) == (None, {})


def test_an_experiment_with_a_matrix_reads_as_it_was_written(copies):
    assert Experiment.model_validate(json.loads(copies.model_dump_json())) == copies


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ("nice: [-3, 3]", ["nice--3", "nice-3"]),
        ("fast: [true, false]", ["fast-on", "fast-off"]),
        ("path: [/dev/sda, Some Words]", ["dev-sda", "some-words"]),
        ("cpus: [1, 4]", ["cpus-1", "cpus-4"]),
    ],
)
def test_values_in_names(tmp_path, values, names):
    experiment = load(
        tmp_path, YAML.replace("method: [read, mmap]", values).replace("-{method}", "").split("claims")[0]
    )
    wanted = [f"copy.{kernel}.{name}.mib-1" for kernel in ("classic", "modern-6.1") for name in names]
    assert [arm for arm in experiment.arms if arm.endswith("mib-1")] == wanted


def test_a_field_a_workload_and_a_seed_are_dimensions(tmp_path):
    text = YAML.replace("method: [read, mmap]", "workload: [copy, wait]\n      cpus: [1, 2]\n      seed: [7, 8]")
    text = text.replace("-{method}", "").split("claims")[0]
    experiment = load(tmp_path, text)
    arm = experiment.arms["copy.classic.wait.cpus-2.seed-8.mib-1"]
    assert (arm.workloads, arm.cpus, arm.seed) == (["wait"], 2, 8)
    assert not {"workload", "cpus", "seed"}.intersection(arm.params)
    seeds = {trial.arm: trial.seed for trial in make_plan(experiment, seed=5)}
    assert seeds["copy.classic.wait.cpus-2.seed-8.mib-1"] == trial_seed(8, 0)
    assert seeds["plain"] == trial_seed(5, 0)


def test_exclude_and_include(tmp_path):
    more = """\
      exclude:
        - {kernel: classic, mib: [1, 2]}
        - {method: mmap, mib: 0.5}
      include:
        - {kernel: classic, method: read, mib: 64}
claims:"""
    experiment = load(tmp_path, YAML.replace("claims:", more).split("  - {id: one")[0] + "  []\n")
    assert list(experiment.arms)[1:] == [
        "copy.classic.read.mib-0.5",
        "copy.modern-6.1.read.mib-1",
        "copy.modern-6.1.read.mib-2",
        "copy.modern-6.1.read.mib-0.5",
        "copy.modern-6.1.mmap.mib-1",
        "copy.modern-6.1.mmap.mib-2",
        "copy.classic.read.mib-64",
    ]


JOINED = YAML.replace(
    "plain: {kernel: classic}",
    "own: {kernel: classic, cpus: 2, group: copy, dimensions: {kernel: classic, method: read, mib: 3}}",
)


def test_an_arm_written_by_hand_may_join(tmp_path):
    experiment = load(tmp_path, JOINED)
    assert len(experiment.group("copy")) == 13
    assert experiment.written_arms == ["copy"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("group: copy,", "", "own: group and dimensions: give both or neither"),
        ("group: copy,", "group: own,", "own.group: own is the name of an arm"),
        ("method: read, mib: 3", "mib: 3", "dimensions.*: those of copy are, in this order, kernel"),
        ("method: read, mib: 3", "mib: 3, method: read", "dimensions.*: those of copy are, in this order, kernel"),
        ("{kernel: classic, method", "{kernel: other, method", "own.dimensions.kernel: the arm's kernel is classic"),
        ("method: read, mib: 3", "trial: read, mib: 3", "own.dimensions.trial: is the name of a column"),
    ],
)
def test_an_arm_that_does_not_fit_its_group_is_told(tmp_path, old, new, says):
    assert JOINED.count(old) == 1
    with pytest.raises(UsageError, match=rf"experiment.yaml:\d+: field arms.*{says}"):
        load(tmp_path, JOINED.replace(old, new))


# -- mistakes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("[1, 2, 0.5]", "[1, 2, 1]", 3, r"matrix.mib.2: 1 is given twice"),
        ("[1, 2, 0.5]", "[1, [2]]", 3, r"matrix.mib.1: must be one word, number or on/off"),
        ("[1, 2, 0.5]", "[]", 3, r"matrix.mib: List should have at least 1 item"),
        ("mib: [1,", "Mib: [1,", 3, r"matrix.Mib: the name of a dimension has lower-case"),
        ("mib: [1,", "trial: [1,", 3, r"matrix.trial: is the name of a column"),
        ("mib: [1,", "other: [1,", 3, r"matrix.other: other of the arm has a value beside the matrix"),
        ("mib: [1,", "clock: [1,", 3, r"matrix.clock: clock of the arm has a value beside the matrix"),
        ("[read, mmap]", "[read, Read]", 0, r"matrix: two combinations are called copy.classic.read.mib-1"),
        ("[read, mmap]", "[read, '/']", 0, r"matrix: a value has no letter or digit"),
        ("[read, mmap]", f"[{'x' * 60}]", 0, r"matrix: the name .* is longer than 64"),
        ("[1, 2, 0.5]", "[1, 2]\n      exclude: [{mb: 1}]", 4, r"exclude.0.mb: mb is no dimension here"),
        ("[1, 2, 0.5]", "[1, 2]\n      exclude:\n      - {mib: 3}", 5, r"exclude.0: leaves out no combination"),
        ("[1, 2, 0.5]", "[1, 2]\n      exclude: [{mib: [1, 2]}]", 4, r"exclude: leaves no arm"),
        ("[1, 2, 0.5]", "[1, 2]\n      include: [{mib: 3}]", 4, r"include.0: says no kernel"),
        (
            "[1, 2, 0.5]",
            "[1]\n      include: [{mib: 1, method: read, kernel: classic}]",
            4,
            r"include.0: is a combination that is there",
        ),
        ("[1, 2, 0.5]", str(list(range(300))), 0, r"gives 2 x 2 x 300 = 1200 arms, and 1000 are the most"),
        ("kernel: [classic, modern-6.1]", "session: [ssh, tcp]", -4, r"copy.kernel: is missing"),
        ("kernel: [classic, modern-6.1]", "kernel: [classic, Modern]", 1, r"matrix.kernel.1: String should .*Modern"),
        ("method: [read, mmap]", "workload: [copy, cpy]", 2, r"matrix.workload: unknown workload 'cpy'"),
        ('mem: "{mib}M"', 'mem: "{mb}M"', -1, r"copy.cmdline.mem: \{mb\}: there is no such dimension"),
        ("clock: virtual", "clock: slow", -3, r"copy.clock: Input should be 'virtual' or 'wall'"),
        ("  plain:", "  copy.classic.read.mib-1:", -4, r"copy: an arm copy.classic.read.mib-1 is there already"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path, old, new, line, says):
    assert YAML.count(old) == 1
    text = YAML.replace(old, new)
    if "workload:" in new or "session:" in new:
        text = text.replace("-{method}", "")
    with pytest.raises(UsageError, match=rf"experiment.yaml:{MATRIX_LINE + line}: field arms.*{says}") as caught:
        load(tmp_path, text)
    assert all("\n" not in line for line in caught.value.lines)
    assert len(set(caught.value.lines)) == len(caught.value.lines) <= 2, "once, and not for each arm"


def test_there_is_a_most_of_all_matrices_together(tmp_path):
    """Ten of 200 each."""
    matrix = "{kernel: classic, matrix: {mib: " + str(list(range(200))) + "}}"
    text = YAML[: YAML.index("arms:")] + "arms:\n" + "".join(f"  a{index}: {matrix}\n" for index in range(10))
    with pytest.raises(UsageError, match=r"arms\.a5: the experiment has 1200 arms, and 1000 are the most"):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("m/copy.classic.read.mib-1", "m/copy", "copy is a matrix of 12 arms: compare them by across, or"),
        ("m/copy.classic.read.mib-1", "m/cpy", r"m/cpy names no arm \(known: plain, copy\)"),
        ("m/copy, across", "m/plain, across", r"plain is no arm with a matrix \(known: copy\)"),
        ("slope: mib", "slope: mb", r"across.slope: mb is no dimension of copy \(known: kernel, method, mib\)"),
        ("slope: mib", "slope: method", "across.slope: method has values that are no numbers"),
        ("slope: mib, scale: log-log", "ratio: {mib: [1, 4]}", "across.ratio: copy has no arm whose mib is 4"),
        ("slope: mib", "slope: mib, where: {method: [read, rad]}", "across.where: copy has no arm whose method is rad"),
        ("slope: mib", "slope: mib, where: {mib: 1}", "across.where.mib: mib is what is compared"),
        (", scale: log-log", "", "across: a slope needs scale: linear or log-log"),
        ("slope: mib, scale: log-log", "equal: mib, scale: linear", "across: scale goes with slope only"),
        ("slope: mib, scale: log-log", "equal: mib", "across: equal says what is expected: leave out expect"),
        ("slope: mib, scale: log-log", "equal: mib, order: {mib: [1, 2]}", "give exactly one of ratio, slope,"),
        ("slope: mib, scale: log-log", "order: {mib: [1]}", "across.order.mib: needs two values or more"),
        ("slope: mib, scale: log-log", "ratio: {mib: [1, 1]}", "across.ratio.mib: 1 is given twice"),
        ("scale: log-log", "scale: log-log, within: 1", "across: within goes with equal only"),
        ("id: lin,", "id: lin, controls: [one],", "controls: only a finding is a negative control"),
        ("id: lin,", "id: lin, kind: finding, controls: [two],", r"controls: two is no claim .* \(known: one\)"),
        (
            "id: one,",
            "id: one, kind: finding, controls: [lin]",
            None,
        ),
        ("id: lin,", "id: lin, kind: finding, controls: [lin],", r"controls: lin is no claim .* itself no control"),
    ],
)
def test_a_claim_that_fits_no_matrix_is_told(tmp_path, old, new, says):
    assert YAML.count(old) == 1
    text = YAML.replace(old, new if says else new + ",")
    if says is None:
        assert load(tmp_path, text).claims[0].controls == ["lin"]
        return
    with pytest.raises(UsageError, match=rf"experiment.yaml:\d+: field claims.*{says}"):
        load(tmp_path, text)


# -- the command line --------------------------------------------------------------------------------------


def planned(folder: Path, text: str = YAML, arms: list[str] | None = None, **chosen: list[str]) -> set[str]:
    return {trial.arm for trial in make_plan(load(folder, text, **chosen), arms=arms, chosen=chosen)}


def test_set_restricts_and_widens(tmp_path):
    assert planned(tmp_path, mib=["1", "64"], method=["read"]) == {
        "plain",
        *(f"copy.{kernel}.read.mib-{mib}" for kernel in ("classic", "modern-6.1") for mib in (1, 64)),
    }
    assert len(load(tmp_path, mib=["1", "64"]).arms) == 1 + 2 * 2 * 4, "claims may still name the others"
    fewer = planned(tmp_path, mib=["0.50"], kernel=["classic"])
    assert fewer == {"plain", "copy.classic.read.mib-0.5", "copy.classic.mmap.mib-0.5"}


def test_kernel_leaves_out_arms_of_other_kernels_too(tmp_path):
    fewer = planned(tmp_path, kernel=["modern-6.1"], mib=["1"])
    assert fewer == {"copy.modern-6.1.read.mib-1", "copy.modern-6.1.mmap.mib-1"}
    assert "copy.modern-6.12.read.mib-1" in planned(tmp_path, kernel=["modern-6.12"])


def test_a_text_of_the_command_line_means_the_value_that_reads_so(tmp_path):
    text = YAML.replace("[read, mmap]", '["off", "on"]').split("claims")[0]
    assert planned(tmp_path, text, method=["off"], mib=["1"], kernel=["classic"]) == {"plain", "copy.classic.off.mib-1"}


def test_the_name_of_a_matrix_means_its_arms(tmp_path):
    assert planned(tmp_path, arms=["copy"], mib=["1"], kernel=["classic"]) == {
        "copy.classic.read.mib-1",
        "copy.classic.mmap.mib-1",
    }


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ({"mb": ["1"]}, r"--set mb: no arm has this dimension \(known: kernel, method, mib\)"),
        ({"mib": ["[1]"]}, r"--set mib: '\[1\]' is no word, number or on/off"),
    ],
)
def test_wrong_words(tmp_path, chosen, says):
    with pytest.raises(UsageError, match=says):
        planned(tmp_path, **chosen)


@pytest.mark.parametrize(
    ("words", "kernels", "says"),
    [
        (["mib"], None, "--set mib: must be DIMENSION=VALUE"),
        (["mib=,"], None, "--set mib=,: must be DIMENSION=VALUE"),
        (["mib=1", "mib=2"], None, "--set mib: is given twice"),
        (["kernel=a"], ["b"], "--kernel and --set kernel: give one of them"),
    ],
)
def test_words_that_say_nothing(words, kernels, says):
    with pytest.raises(UsageError, match=says):
        parse_chosen(words, kernels)


def test_kernel_without_a_matrix_chooses_arms(tmp_path):
    text = YAML[: YAML.index("arms:")] + "arms:\n  a: {kernel: k1}\n  b: {kernel: k2}\n"
    assert planned(tmp_path, text, kernel=["k2"]) == {"b"}
    with pytest.raises(UsageError, match=r"--kernel k3: no arm has this value \(known: k1, k2\)"):
        planned(tmp_path, text, kernel=["k3"])


# -- order within a guest ----------------------------------------------------------------------------------


def test_workloads_run_as_given_or_in_an_order_of_the_trials_seed(tmp_path):
    text = YAML.replace("plain: {kernel: classic}", "plain: {kernel: classic, workload_order: random}")
    arm = load(tmp_path, text).arms["plain"]
    names = [f"w{index}" for index in range(6)]
    orders = {tuple(workload_order(arm, names, seed)) for seed in range(50)}
    assert len(orders) > 40
    assert all(sorted(order) == names for order in orders)
    assert workload_order(arm, names, 3) == workload_order(arm, names, 3)
    assert workload_order(load(tmp_path).arms["plain"], names, 3) == names
