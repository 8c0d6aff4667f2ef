# SPDX-License-Identifier: MIT
"""The self-test without guests: kinds of arms, what is checked of a trial, table, exit codes, the file."""

from __future__ import annotations

import getpass
import hashlib
import json
import re
import socket
from pathlib import Path

import pytest
from rich.console import Console

from harness.artefacts.store import Store
from harness.errors import RunError, UsageError
from harness.experiment.model import Experiment, load_experiment
from harness.guest.job import WorkloadCommand, trial_job
from harness.host import examine, kindwork
from harness.host.attachment import anonymous, attachment, private_words, write_attachment
from harness.host.kernelkit import kernels_experiment
from harness.host.kinds import Kind, choose_kinds, find_kinds
from harness.host.kindtrial import Failed, Row, attempt, kind_experiment, lost_line
from harness.host.kindwork import Absent, check_work, work_of
from harness.host.request import SelftestRequest
from harness.host.selftest import Kit, check, pmu_row, seconds_of, selftest, shortest_arm, table
from harness.machine.spec import MAILBOX_BYTES
from harness.paths import EXPERIMENTS, ROOT
from harness.sets.reference import Reference
from tests.trials import made_experiment

HERE = Path("/nowhere")


def experiment(name: str = "one", **arms: dict[str, object]) -> Experiment:
    workloads = {"long": {"command": "a", "timeout_s": 600}, "short": {"command": "b", "timeout_s": 5}}
    return made_experiment(workloads, {arm: {"kernel": "classic"} | fields for arm, fields in arms.items()}, name)


def names(*experiments: Experiment) -> list[str]:
    return [one.kind.name for one in find_kinds([(HERE, one) for one in experiments])]


def row(status: str = "ok", name: str = "tcg wall x", group: str = "tcg wall", **fields: object) -> Row:
    return Row(group=group, name=name, status=status, seconds=1.0, detail="why", **fields)  # type: ignore[arg-type]


# -- kinds ---------------------------------------------------------------------------------------------------


def test_arms_that_ask_the_same_of_a_host_are_one_kind():
    same = experiment(
        a={"clock": "virtual", "cmdline": {"profile": 2}, "params": {"x": 1}, "workloads": ["long"]},
        b={"clock": "virtual", "cmdline": {"profile": 4, "left_out": False}, "workloads": ["short"]},
    )
    other = experiment("two", c={"clock": "virtual", "cmdline": {"profile": 6}})
    (kind,) = find_kinds([(HERE, same), (HERE, other)])
    assert kind.kind.name == "tcg virtual classic mailbox profile"
    assert kind.arms == ("one/a", "one/b", "two/c")


@pytest.mark.parametrize(
    "fields",
    [
        {"kernel": "modern-6.1"},
        {"session": "mailbox"},
        {"cpus": 2, "kernel": "modern-6.1"},
        {"cmdline": {"pti": True}},
        {"devices": ["disk"]},
        {"oracle": ["functions"]},
        {"record": True},
        {"clock": "virtual"},
        {"clock": "virtual", "icount_shift": 0},
    ],
)
def test_whatever_a_host_must_have_for_it_makes_another_kind(fields):
    plain = {one.kind for one in find_kinds([(HERE, experiment(a={}))]) if not one.kind.record}
    other = {one.kind for one in find_kinds([(HERE, experiment(a=fields))]) if one.kind.record == ("record" in fields)}
    assert other
    assert not {kind for kind in other if kind.accelerator == "tcg"} & plain
    assert len({kind.name for kind in plain | other}) == len(plain | other), "names tell kinds apart"


def test_only_wall_arms_without_oracle_and_recording_are_also_of_a_kind_under_kvm():
    kinds = names(experiment(a={}, b={"oracle": ["functions"]}, c={"record": True}, d={"clock": "virtual"}))
    assert [name for name in kinds if name.startswith("kvm")] == ["kvm wall classic ssh"]


def test_a_kind_that_records_is_added_where_no_arm_does():
    assert names(experiment(a={}))[-1] == "tcg wall classic ssh recorded"
    assert names(experiment(a={"devices": ["disk", "net"]}))[-1] == "tcg wall classic ssh disk recorded"
    assert names(experiment(a={"session": "mailbox"})) == ["kvm wall classic mailbox", "tcg wall classic mailbox"]
    assert names(experiment(a={}, b={"record": True, "devices": ["disk"]}))[-1] == "tcg wall classic ssh disk recorded"


def test_an_arm_of_the_quick_profile_stands_for_its_kind():
    late = {"clock": "virtual", "repetitions": {"quick": 0, "full": 1}}
    (one,) = find_kinds([(HERE, experiment(a=late, b={"clock": "virtual", "params": {"x": 1}}))])
    assert (one.arm.params, one.quick, one.arms) == ({"x": 1}, True, ("one/a", "one/b"))
    (one,) = find_kinds([(HERE, experiment(a=late))])
    assert not one.quick


def test_a_kernel_of_an_experiments_own_is_no_other_experiments(tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/classic.yaml").write_text("")
    virtual = experiment(a={"clock": "virtual"})
    kinds = find_kinds([(HERE, virtual), (tmp_path, virtual)])
    assert [one.kind.kernel for one in kinds] == ["classic", "one/classic"]
    assert [one.kernel for one in kinds] == [("classic", None), ("classic", tmp_path)]


def test_kinds_are_chosen_by_words_of_their_names():
    found = find_kinds([(HERE, experiment(a={}, b={"clock": "virtual"}))])
    assert [one.kind.name for one in choose_kinds(found, ("kvm", "tcg virtual"))] == [
        "kvm wall classic ssh",
        "tcg virtual classic mailbox",
    ]
    assert choose_kinds(found, None) == found
    with pytest.raises(UsageError, match="--kind kvm virtual: fits no kind"):
        choose_kinds(found, ("tcg", "kvm virtual"))


def test_the_experiments_here_have_every_dimension_of_a_kind():
    found = find_kinds([(folder, load_experiment(folder)) for folder in sorted(EXPERIMENTS.glob("*"))])
    kinds = [one.kind for one in found]
    assert {(kind.accelerator, kind.clock) for kind in kinds} == {("kvm", "wall"), ("tcg", "wall"), ("tcg", "virtual")}
    assert {kind.session for kind in kinds} == {"ssh", "mailbox"}
    assert {kind.cpus for kind in kinds} >= {1, 2}
    assert {device for kind in kinds for device in kind.devices} == {"edu", "disk", "net", "counters", "stream"}
    assert any(kind.record for kind in kinds)
    assert any("pti" in kind.parameters for kind in kinds)
    for one in found:
        name, alone = kind_experiment(one)
        command = work_of(one.kind)
        job = trial_job(1, {}, [WorkloadCommand("work", command.command, command.timeout_s, ())])
        assert len(job) < MAILBOX_BYTES
        assert alone.arms[name].workloads == [kindwork.WORK]


# -- what a trial must have left ------------------------------------------------------------------------------

KIND = Kind("tcg", "wall", "modern", "ssh", 2, (), (), (), 3, False)


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    """What the guest leaves of the work when all is well."""
    work = tmp_path / kindwork.WORK
    work.mkdir()
    data = bytes(kindwork.TRANSFER_BYTES)
    (work / "cpus").write_text("2\n")
    (work / "flags").write_text("flags\t\t: fpu la57 lm\n")
    (work / "transfer").write_bytes(data)
    (work / "transfer.sha256").write_text(f"{hashlib.sha256(data).hexdigest()}  -\n")
    return tmp_path


def test_a_whole_trial_passes(trial):
    assert check_work(KIND, ["+la57", "-hypervisor"], trial, trial) == []


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("cpus", b"1\n", "the guest has 1 CPUs, not 2"),
        ("cpus", None, "the guest has no CPUs, not 2"),
        ("transfer", b"short", "5 of 4194304 transferred bytes came"),
        ("transfer", None, "did not come"),
        ("transfer", b"\1" + bytes(kindwork.TRANSFER_BYTES - 1), "is not what the guest sent"),
        ("transfer.sha256", b"", "is not what the guest sent"),
    ],
)
def test_what_is_wrong_is_told(trial, name, content, says):
    path = trial / kindwork.WORK / name
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(RunError, match=says):
        check_work(KIND, [], trial, trial)


def test_a_cpu_that_lacks_a_feature_fails_under_tcg_and_is_absent_under_kvm(trial):
    with pytest.raises(RunError, match="the guest's CPU has no avx") as failed:
        check_work(KIND, ["+avx"], trial, trial)
    assert not isinstance(failed.value, Absent)
    kvm = Kind("kvm", "wall", "modern", "ssh", 2, (), (), (), 3, False)
    with pytest.raises(Absent, match="the host's CPU has no avx"):
        check_work(kvm, ["+avx"], trial, trial)
    assert check_work(kvm, ["-lm"], trial, trial) == [
        "the guest's CPU has lm, which this kernel's machine is not to have"
    ]


def test_an_oracle_that_did_not_run_is_told(trial):
    (trial / "System.map").write_text("c0100000 T _stext\nc0200000 T _etext\n")
    counted = Kind("tcg", "wall", "modern", "ssh", 2, (), (), ("functions",), 3, False)
    with pytest.raises(RunError, match="no oracle ran"):
        check_work(counted, [], trial, trial / "System.map")


# -- rows -------------------------------------------------------------------------------------------------------


def test_whatever_an_attempt_raises_is_a_row():
    def raising(error: Exception) -> Row:
        def action() -> tuple[str, str | None]:
            raise error

        return attempt("group", "name", action)

    assert attempt("group", "name", lambda: ("well", "ok: 1 of 1")).pmu == "ok: 1 of 1"
    assert (raising(Absent("no KVM")).status, raising(Absent("no KVM")).detail) == ("absent", "no KVM")
    assert raising(RunError("wrong", where="/x")).detail == "wrong", "no path of the host"
    failed = raising(Failed("lost\nit", "\n".join(f"line {n}" for n in range(100))))
    assert (failed.status, failed.detail, len(failed.console), failed.console[-1]) == (
        "failed",
        "lost it",
        60,
        "line 99",
    )
    assert "unexpected ZeroDivisionError" in raising(ZeroDivisionError("x")).detail
    with pytest.raises(KeyboardInterrupt):
        raising(KeyboardInterrupt())  # type: ignore[arg-type]


def test_the_line_in_which_a_kernel_is_lost():
    console = "BUG: unable to handle page fault\n[ 1.0] Kernel panic - not syncing: Fatal exception \nend\n"
    assert lost_line(console) == "Kernel panic - not syncing: Fatal exception"
    assert lost_line("[ 2.0] BUG: soft lockup\nmore") == "BUG: soft lockup"
    assert lost_line("krepro: ready") is None


def test_what_failed_or_was_not_tried_is_an_error():
    check([row(), row("absent")])
    with pytest.raises(RunError, match="1 of 2 failed; the first: broken: why") as caught:
        check([row("untried"), row("failed", "broken")])
    assert caught.value.exit_code == 3
    with pytest.raises(RunError, match="1 of 2 were not tried"):
        check([row(), row("untried")])


def test_the_pmu_is_what_guests_found_and_never_a_guess():
    kvm = row("absent", "kvm wall x", "kvm wall")
    assert pmu_row([row()]).detail == "no kind under KVM was chosen"
    assert (pmu_row([kvm]).status, pmu_row([kvm]).detail) == ("absent", "only a guest under KVM can have one: why")
    seen = [
        row(pmu="absent: perf_event_open: No such file or directory"),
        row(pmu="ok: 20000011 of 20000000 instructions"),
    ]
    best, only = pmu_row(seen), pmu_row(seen[:1])
    assert (best.status, best.detail) == ("ok", "20000011 of 20000000 instructions")
    assert (only.status, only.detail) == ("absent", "perf_event_open: No such file or directory")


def test_the_table_is_readable_at_80_columns():
    console = Console(width=80, record=True)
    long = "kvm wall modern-6.1-la57 mailbox 2-cpus pti counters edu oracle:functions+sampler"
    console.print(table([row(), row("failed", long), row("untried")]))
    text = console.export_text()
    assert "Arms on this host: 1 ok, 1 failed, 1 untried" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "oracle:functions" in text.replace("\n", "")
    assert re.search(r"failed +1\.0 +why", text)


def test_what_was_not_begun_is_untried(tmp_store, monkeypatch):
    one = experiment(a={"clock": "virtual"})
    kit = Kit(tmp_store, [(HERE, one)], SelftestRequest(kind=("virtual",), minutes=0))
    monkeypatch.setattr(Kit, "_kernel", lambda *_: ("there", None))
    kit._builds = kit._builds[:0]
    kit.run()
    assert [(row.name, row.status) for row in kit.whole()] == [
        ("tcg virtual classic mailbox", "untried"),
        ("PMU of a guest", "absent"),
    ]


def test_the_arm_with_the_least_to_do_shows_its_bits():
    one = experiment(long={}, short={"workloads": ["short"]}, unknown={"workloads": []})
    trials = {"raw/long/0": "x", "raw/short/0": "x", "raw/gone/0": "x"}
    reference = Reference(experiment="one", inputs={}, digest="", trials=trials)
    assert shortest_arm(one, reference) == "short"
    assert seconds_of(one, "long") == 605


# -- the file ---------------------------------------------------------------------------------------------------


def test_no_name_of_this_host_is_in_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    monkeypatch.setattr(socket, "gethostname", lambda: "turing.example.org")
    monkeypatch.setenv("KREPRO_STORE", str(Store.default().root))  # where the tools are; that home cannot be made
    monkeypatch.setattr(Path, "home", lambda: Path("/srv/people/ada"))
    store = Store(tmp_path / "store")
    bobs = Path("/", "home", "bob", "z")
    said = f"{tmp_path}/store/kernel/x of Ada on turing, in {ROOT}/inv and /srv/people/ada/y, {bobs}; adapter"
    rows = [row("failed", console=(said,), arms=("one/a",))]
    report = examine.examine(store.root, lambda: (False, said), lambda: (True, said), {"box": lambda: (True, said)})
    path = write_attachment(attachment(rows, report, {"classic": said}, False), tmp_path / "kit.json", store)
    text = path.read_text()
    for private in (str(tmp_path), str(ROOT), "Ada", "turing", "example.org", "bob", "/srv/people"):
        assert private not in text, private
    content = json.loads(text)
    assert content["rows"][0]["console"] == ["STORE/kernel/x of USER on HOST, in PROJECT/inv and HOME/y, HOME; adapter"]
    assert content["host"]["cpu"]
    assert content["qemu"].startswith("QEMU") or "does not run" in content["qemu"]
    assert {"format", "repository", "packages", "cpu_flags", "kvm_proofs", "findings"} <= content.keys()


def test_common_names_are_left_alone(monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "root")
    monkeypatch.setattr(socket, "gethostname", lambda: "localhost")
    text = "VFS: Unable to mount root fs under kvm"
    assert anonymous({"a": [text, 1, None]}, private_words(Path("/x/store"))) == {"a": [text, 1, None]}


def test_the_file_is_a_file_or_goes_into_a_folder(tmp_path, monkeypatch, tmp_store):
    monkeypatch.chdir(tmp_path)
    content = attachment([], examine.HostReport(findings=[]), {}, True)
    folder = tmp_path / "some"
    folder.mkdir()
    for out, parent in ((None, tmp_path), (folder, folder)):
        path = write_attachment(content, out, tmp_store)
        assert path.parent == parent
        assert re.fullmatch(r"selftest-\d{8}T\d{6}Z\.json", path.name)
        assert json.loads(path.read_text())["interrupted"] is True
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write_attachment(content, tmp_path / "file/kit.json", tmp_store)


def test_a_kernel_of_one_cpu_has_no_arm_of_two():
    assert "two" in kernels_experiment(["modern-6.1"]).arms
    assert "two" not in kernels_experiment(["classic"]).arms
    assert {arm.kernel for arm in kernels_experiment(["classic"]).arms.values()} == {"classic"}


def test_several_kernels_have_one_arm_each():
    arms = kernels_experiment(["debian:6.1", "debian:6.12+deb12", "classic"]).arms
    assert {name: (arm.kernel, arm.clock) for name, arm in arms.items()} == {
        "debian-6.1": ("debian:6.1", "virtual"),
        "debian-6.12-deb12": ("debian:6.12+deb12", "virtual"),
        "classic": ("classic", "virtual"),
    }


def test_a_kernel_has_arms_of_its_own_and_no_experiments(tmp_store):
    with pytest.raises(UsageError, match=r"--kernel tries arms of its own \(leave out --experiment\)"):
        selftest(SelftestRequest(kernel="classic", experiment=("shim",)), tmp_store, Console(quiet=True))
