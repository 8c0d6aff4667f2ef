# SPDX-License-Identifier: MIT
"""experiment.yaml: every slip is named by line and field; folders anywhere are experiments."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.errors import UsageError
from harness.experiment.expect import Expect
from harness.experiment.model import (
    TRIAL_FILES,
    Arm,
    Experiment,
    experiment_names,
    find_experiment,
    load_experiment,
)
from harness.machine.hostsched import HOST_SCHED
from harness.packages.choice import Package
from harness.paths import EXPERIMENTS, ROOT
from harness.sets.digest import HOST_TIMED
from harness.trial.execution import EVENTS, KEPT
from harness.trial.prepare import boot_parameters, check_arms
from tests.conftest import EXPERIMENT


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("name: example", "name: Example!", 1, "field name: String should match pattern"),
        ("name: example", "name: reports", 1, "field name: reports is a name of the harness's own in the folder of"),
        ("name: example", "name: latest", 1, "field name: latest is a name of the harness's own"),
        (
            "  add: {",
            "  job.exit: {",
            4,
            "field workloads.job.exit: is a name of the harness's own in a trial's folder",
        ),
        ("  add: {", "  oracle: {", 4, "field workloads.oracle: is a name of the harness's own"),
        ("year: 2024", "year: soon", 2, "field paper.year: Input should be a valid integer"),
        ("authors: [Nobody]", "authors: []", 2, "field paper.authors: List should have at least 1 item"),
        ('{command: "echo 42"}', "{command: [echo]}", 4, "field workloads.add.command: Input should be a valid string"),
        ('{command: "echo 42"}', "{}", 4, "field workloads.add.command: Field required"),
        ("timeout_s: 5", "timeout_s: 0", 5, "field workloads.wait.timeout_s: Input should be greater than 0"),
        ("timeout_s: 5", "timeout_s: .inf", 5, "field workloads.wait.timeout_s: must be a finite number"),
        ("timeout_s: 5", "timeout: 5", 5, "field workloads.wait.timeout: Extra inputs are not permitted"),
        ("virtual, params", "vrtual, params", 7, "field arms.left.clock: Input should be 'virtual' or 'wall'"),
        ("params: {offset: 0}", "params: {offset: [0]}", 7, "field arms.left.params.offset: must be one word, number"),
        ("params: {offset: 0}", "params: {Up: 0}", 7, "field arms.left.params.Up.[key]: String should match"),
        ("params: {offset: 0}", "params: {seed: 0}", 7, "field arms.left.params.seed: the harness sets this one"),
        ("params: {offset: 0}", "devices: [usb]", 7, "field arms.left.devices.0: Input should be 'edu', 'disk'"),
        ("params: {offset: 0}", "cpus: 0", 7, "field arms.left.cpus: Input should be greater than or equal to 1"),
        ("  right:\n    kernel: classic\n", "  right:\n", 8, "field arms.right.kernel: Field required"),
        ("workloads: [add]", "workloads: [ad]", 11, "field arms.right.workloads: unknown workload 'ad' (known: add, "),
        ("full: 2", "full: -2", 12, "field arms.right.repetitions.full: Input should be greater than or equal to 0"),
        ("total/left", "total/lift", 15, "field claims.0.metric: total/lift names no arm (known: left, right)"),
        ("total/left", "total", 15, "field claims.0.metric: String should match pattern"),
        ("id: bounded", "id: adds", 16, "field claims.1.id: claim id adds is given twice"),
        ("{equals: 42}", "{}", 15, "field claims.0.expect: give exactly one of equals, between, at_least, at_most"),
        ("{equals: 42}", "{equals: 1, at_most: 2}", 15, "field claims.0.expect: give exactly one of"),
        ("{equals: 42}", "{equals: .nan}", 15, "field claims.0.expect.equals: must be a finite number"),
        ("{between: [1, 2]}", "{equals: 1, between: [1, 2]}", 18, "field claims.1.expect: give exactly one of equals"),
        ("{between: [1, 2]}", "{between: [2, 1]}", 18, "field claims.1.expect: between: the lower bound comes first"),
        ("{between: [1, 2]}", "{between: [1]}", 18, "field claims.1.expect.between.1: Field required"),
        ("{between: [1, 2]}", "{between: 1}", 18, "field claims.1.expect.between: Input should be a valid tuple"),
        ("metric: total/right", "metrics: total/right", 16, "field claims.1.metrics: Extra inputs"),
        (
            "{equals: 42}",
            "{equals: 42}, known: refuted",
            15,
            "field claims.0: known: a claim of kind paper is never refuted",
        ),
        ("{equals: 42}", "{equals: 42}, known: confirmed", 15, "field claims.0.known: Input should be 'contradicted'"),
    ],
)
def test_slips_are_named_by_line_and_field(example, old, new, line, says):
    path = example / "experiment.yaml"
    assert EXPERIMENT.count(old) == 1
    path.write_text(EXPERIMENT.replace(old, new))
    with pytest.raises(UsageError) as caught:
        load_experiment(example)
    assert str(caught.value).startswith(f"{path}:{line}: {says}")


def test_a_valid_experiment(example):
    experiment = load_experiment(example)
    assert experiment.arm_workloads("left") == ["add", "wait"]
    assert experiment.arm_workloads("right") == ["add"]
    assert [experiment.arm_repetitions("left", profile) for profile in ("quick", "full")] == [3, 4]
    assert [experiment.arm_repetitions("right", profile) for profile in ("quick", "full")] == [0, 2]
    assert [(claim.metric_name, claim.arm) for claim in experiment.claims] == [("total", "left"), ("total", "right")]
    assert experiment.arms["left"].session_kind() == "mailbox"


FILE = "{name: valgrind, files: [usr/libexec/valgrind/lackey-amd64-linux]}"


def test_packages_are_names_or_files_of_one(example):
    (example / "experiment.yaml").write_text(f"{EXPERIMENT}packages: [gzip, gzip, {FILE}]\n")
    experiment = load_experiment(example)
    lackey = Package(name="valgrind", files=("usr/libexec/valgrind/lackey-amd64-linux",))
    assert experiment.packages == ["gzip", "gzip", lackey]
    stored = json.loads(experiment.model_dump_json())
    assert stored["packages"] == ["gzip", "gzip", {"name": "valgrind", "files": list(lackey.files)}]
    assert Experiment.model_validate(stored) == experiment


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ("[libstdc++6]", "field packages.0: String should match pattern '^[a-z0-9][a-z0-9._-]*$', got 'libstdc++6'"),
        ("[7]", "field packages.0: Input should be a valid string, got 7"),
        ("[gzip, {name: libstdc++6, files: [a]}]", "field packages.1.name: String should match pattern"),
        ("[{name: gzip}]", "field packages.0.files: Field required"),
        ("[{files: [bin/gzip]}]", "field packages.0.name: Field required"),
        ("[{name: gzip, files: []}]", "field packages.0.files: Tuple should have at least 1 item"),
        ("[{name: gzip, files: bin/gzip}]", "field packages.0.files: Input should be a valid tuple"),
        ("[{name: gzip, file: [bin/gzip]}]", "field packages.0.files: Field required"),
        ("[{name: gzip, files: [/bin/gzip]}]", "field packages.0.files.0: String should match pattern"),
        ("[{name: gzip, files: [bin/]}]", "field packages.0.files.0: String should match pattern"),
        ("[{name: gzip, files: [a b]}]", "field packages.0.files.0: String should match pattern"),
        ("[{name: gzip, files: [a, b/../c]}]", "field packages.0.files.1: must not have . or .. as a part"),
        (f"[gzip, valgrind, {FILE}]", "field packages.2.name: package valgrind is given twice"),
        (f"[{FILE}, {FILE}]", "field packages.0.name: package valgrind is given twice"),
    ],
)
def test_slips_in_packages_are_named(example, entries, says):
    path = example / "experiment.yaml"
    path.write_text(f"{EXPERIMENT}packages: {entries}\n")
    with pytest.raises(UsageError) as caught:
        load_experiment(example)
    assert str(caught.value).startswith(f"{path}:19: {says}")


def test_session_follows_the_clock_unless_given(example):
    path = example / "experiment.yaml"
    path.write_text(EXPERIMENT.replace("virtual, params", "wall, params"))
    assert load_experiment(example).arms["left"].session_kind() == "ssh"
    path.write_text(EXPERIMENT.replace("virtual, params", "wall, session: mailbox, params"))
    assert load_experiment(example).arms["left"].session_kind() == "mailbox"


def test_command_line_words_of_an_arm(example):
    words = "cmdline: {profile: 4, quiet: true, nosmp: false, mode: fast}"
    (example / "experiment.yaml").write_text(EXPERIMENT.replace("params: {offset: 0}", words))
    assert boot_parameters(load_experiment(example).arms["left"]) == ("profile=4", "quiet", "mode=fast")


def test_an_experiment_is_found_by_name_and_by_any_path(example, monkeypatch):
    assert find_experiment("irq-hotspot") == EXPERIMENTS / "irq-hotspot"
    assert find_experiment(str(example)) == example
    monkeypatch.chdir(example.parent)
    assert find_experiment("example") == find_experiment("./example") == example


def test_a_folder_of_the_same_name_does_not_hide_the_projects_own(tmp_path, monkeypatch):
    (tmp_path / "irq-hotspot").mkdir()
    (tmp_path / "irq-hotspot/experiment.yaml").touch()
    monkeypatch.chdir(tmp_path)
    assert find_experiment("irq-hotspot") == EXPERIMENTS / "irq-hotspot"
    assert find_experiment("./irq-hotspot") == tmp_path / "irq-hotspot"


@pytest.mark.parametrize("text", ["nonsense", "../nonsense", "/nonsense", "~nobody-here/x"])
def test_an_unknown_experiment_lists_the_known(text):
    with pytest.raises(UsageError, match=f"unknown experiment '{text}' .known: .*irq-hotspot"):
        find_experiment(text)


def test_a_folder_without_its_files_is_named(example):
    (example / "analysis.py").unlink()
    with pytest.raises(UsageError, match=r"example: has no analysis\.py"):
        load_experiment(example)
    (example / "experiment.yaml").unlink()
    with pytest.raises(UsageError, match=r"example: has no experiment\.yaml"):
        find_experiment(str(example))


@pytest.mark.parametrize("name", experiment_names())
def test_the_projects_own_experiments_load(name):
    experiment = load_experiment(EXPERIMENTS / name)
    assert experiment.name == name
    assert (Path(EXPERIMENTS) / name / "README.md").is_file()
    assert experiment.claims


def test_every_file_that_a_trial_keeps_is_a_name_of_the_harness():
    kept = {*KEPT, EVENTS, HOST_SCHED, *HOST_TIMED}
    guest = re.findall(r">(\S+)$", (ROOT / "images/guest/krepro-job.sh").read_text(), re.MULTILINE)
    assert kept | {name for name in guest if re.fullmatch(r"[a-z.]+", name)} <= TRIAL_FILES


def test_all_that_refers_to_nothing_is_told_at_once(example):
    path = example / "experiment.yaml"
    text = EXPERIMENT.replace("workloads: [add]", "workloads: [sub]").replace("total/left", "total/middle")
    path.write_text(text.replace("metric: total/right", "metric: total/up"))
    with pytest.raises(UsageError) as caught:
        load_experiment(example)
    assert caught.value.lines == [
        f"{path}:11: field arms.right.workloads: unknown workload 'sub' (known: add, wait)",
        f"{path}:15: field claims.0.metric: total/middle names no arm (known: left, right)",
        f"{path}:16: field claims.1.metric: total/up names no arm (known: left, right)",
    ]


def test_all_kernels_and_arms_that_cannot_be_are_told_before_anything_is_built(example, tmp_store):
    path = example / "experiment.yaml"
    text = EXPERIMENT.replace("left: {kernel: classic, clock: virtual,", "left: {kernel: clasic,")
    path.write_text(text.replace("workloads: [add]", "devices: [net]"))
    experiment = load_experiment(example)
    with pytest.raises(UsageError) as caught:
        check_arms(experiment, example, experiment.arms, "tcg")
    assert [line.partition(" (")[0].partition(" completes")[0] for line in caught.value.lines] == [
        f"{path}:7: unknown kernel 'clasic'",
        f"{path}:8: arm right: device net",
    ]
    assert not tmp_store.root.exists()


@pytest.mark.parametrize(
    ("expect", "says"),
    [
        ({"equals": 1_295_368}, "= 1295368"),
        ({"between": [0.1, 38_580_000]}, "0.1 … 38580000"),
        ({"at_least": 1e300}, "≥ 1e+300"),
        ({"at_most": 0}, "≤ 0"),
        ({"at_most": 1.097600001}, "≤ 1.097600001"),
    ],
)
def test_a_bound_is_told_as_it_was_written(expect, says):
    assert str(Expect.model_validate(expect)) == says


@pytest.mark.parametrize("kernel", ["/boot/vmlinuz", "../../etc", "/../../x", "debian:../x", "a/b", "debian:", "~"])
def test_no_arm_names_a_path_for_its_kernel_for_a_sets_manifest_has_arms_too(kernel):
    with pytest.raises(ValidationError, match="kernel"):
        Arm.model_validate({"kernel": kernel})
    assert Arm(kernel="debian:6.12.118+deb13-cloud-amd64").on(kernel).kernel == kernel
