# SPDX-License-Identifier: MIT
"""The commands as users and CI call them, as far as they come before anything is built.

Most run Invoke in this process (importing the harness once, not thirty times); some are real processes.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import pytest
from invoke import Exit
from invoke.program import Program

from harness.cli import terminal
from harness.commands.catalogue import COMMANDS, GROUPS, check_command
from harness.commands.program import program
from harness.errors import EXIT_RUN_FAILED, EXIT_USAGE, KreproError, RunError, UsageError
from harness.experiment.model import experiment_names
from harness.paths import ROOT
from tests.conftest import EXPERIMENT, needs_guest_packages
from tests.experiments.probe_cost.test_cost_model import MODEL
from tests.processes import PATIENCE_S


class Done(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Commands get a store of their own, and nothing they refuse may have touched it."""
    monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(ROOT)
    handler = signal.getsignal(signal.SIGTERM)
    yield tmp_path / "store"
    signal.signal(signal.SIGTERM, handler)
    assert not (tmp_path / "store").exists()


@pytest.fixture
def invoke(capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    def call(*words: str) -> Done:
        try:
            Program(version="test").run(["invoke", *words])
        except SystemExit as ended:
            status = int(ended.code or 0)
        else:
            status = 0
        return Done(status, *capfd.readouterr())

    return call


def refused(done: Done) -> str:
    """The one line on standard error of a command that exits with 2."""
    assert done.status == EXIT_USAGE, done.err
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("krepro: ")
    return line.removeprefix("krepro: ")


def process(*words: str) -> Done:
    done = subprocess.run([sys.executable, "-m", "invoke", *words], capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


@needs_guest_packages
def test_an_unknown_experiment_is_one_line_and_exit_2():
    line = refused(process("run", "experiment=nonsense"))
    assert line == f"unknown experiment 'nonsense' (known: {', '.join(experiment_names())}; or give a folder's path)"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nonsense",), "No idea what 'nonsense' is! (./inv --list)"),
        (("run", "x", "--nonsense"), "No idea what '--nonsense' is! (./inv --list)"),
        (("run",), "'run' did not receive required positional arguments: 'experiment' (./inv --list)"),
        (("run", "x", "--seed"), "Flag <Argument: seed> needed value and was not given one! (./inv --list)"),
        (("--nonsense",), "No idea what '--nonsense' is! (./inv --list)"),
    ],
)
def test_words_that_invoke_does_not_know_exit_2(capfd, words, says):
    with pytest.raises(SystemExit) as ended:
        program.run(["inv", *words])
    assert refused(Done(int(ended.value.code or 0), *capfd.readouterr())) == says


@pytest.mark.parametrize("call", ["--help", "-h"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_and_help_is_help_on_it(capfd, name, call):
    with pytest.raises(SystemExit) as ended:
        program.run(["inv", name, call])
    assert not ended.value.code
    lines = capfd.readouterr().out.splitlines()
    assert lines[0].startswith(f"Usage: ./inv {name} ")
    assert lines[2] == COMMANDS[name].summary
    told = " ".join(line.strip() for line in lines)
    for option in COMMANDS[name].parameters:
        assert f"  {option.metavar if option.option.word or option.option.words else option.flag}" in "\n".join(lines)
        assert " ".join(option.help.split()) in told


@pytest.mark.parametrize("words", [("--list",), ("--help",), *((name, "--help") for name in COMMANDS)])
def test_lists_and_helps_are_plain_and_fit_80_columns(capfd, monkeypatch, words):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        program.run(["inv", *words])
    out = capfd.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "](" not in out
    assert "`" not in out


def test_the_list_has_every_command_once_in_a_line_of_its_group(capfd):
    with pytest.raises(SystemExit):
        program.run(["inv", "--list"])
    lines = capfd.readouterr().out.splitlines()
    assert [line[:-1] for line in lines if line.endswith(":")] == [*GROUPS]
    rows = [line.split(maxsplit=1) for line in lines if line.startswith("  ")]
    assert rows == [[name, command.summary] for name, command in COMMANDS.items()]
    assert len(lines) <= 45


def test_inv_runs_that_program_in_the_environment(tmp_path):
    """The second half of ./inv, from elsewhere: the first makes an environment, which takes a minute."""
    command = [sys.executable, ROOT / "inv"]
    environment = {**os.environ, "KREPRO_ENVIRONMENT_READY": "1"}
    environment.pop("PYTHONPATH", None)
    options = {"capture_output": True, "text": True, "cwd": tmp_path, "env": environment}
    wrong = subprocess.run([*command, "nonsense"], check=False, **options)
    assert (wrong.returncode, wrong.stderr) == (EXIT_USAGE, "krepro: No idea what 'nonsense' is! (./inv --list)\n")
    assert "Say what this host can do" in subprocess.run(command, check=False, **options).stdout


def test_list_shows_every_task():
    done = process("--list")
    assert done.status == 0
    tasks = {line.split()[0] for line in done.out.splitlines() if line.startswith("  ") and line[2] != " "}
    assert tasks >= {"bench", "boot", "build", "doctor", "replay", "run", "test"}
    assert COMMANDS["run"].summary in done.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nonsense",), "unknown experiment 'nonsense'"),
        (("experiment=",), "experiment= needs a value"),
        (("kernel=classic",), "'kernel=classic': expected experiment=… or just its value"),
        (("irq-hotspot", "--profile", "nonsense"), "--profile nonsense: must be one of quick, full"),
        (("irq-hotspot", "--repetitions", "0"), "--repetitions 0: must be 1 or more"),
        (("irq-hotspot", "--repetitions", "-1"), "--repetitions -1: must be 1 or more"),
        (("irq-hotspot", "--repetitions", "x"), "--repetitions x: must be a whole number"),
        (("irq-hotspot", "--repetitions", "1.5"), "--repetitions 1.5: must be a whole number"),
        (("irq-hotspot", "--seed", "x"), "--seed x: must be a whole number"),
        (("irq-hotspot", "--accel", "xen"), "--accel xen: must be one of auto, kvm, tcg"),
        (("irq-hotspot", "--arms", "tick,tock"), "unknown arm 'tock' (known: tick, "),
        (("irq-hotspot", "--arms", ","), "irq-hotspot: profile quick has no trials"),
        (("irq-hotspot", "--results", "/dev/null"), "/dev/null/irq-hotspot: cannot write: Not a directory (point "),
        (("irq-hotspot", "--results", "/proc/x"), "/proc/x/irq-hotspot: cannot write: No such file or directory"),
        (("irq-hotspot", "--results", "/dev/null", "--check-digest", "x"), "/dev/null: no result set 'x'"),
    ],
)
@needs_guest_packages
def test_run_refuses_wrong_words(invoke, words, says):
    assert says in refused(invoke("run", *words))


@needs_guest_packages
def test_names_of_a_run_may_be_spelled_in_both_ways(invoke, example):
    (example / "experiment.yaml").write_text("name: 7\n")
    for words in ((str(example),), (f"experiment={example}",), ("--experiment", str(example))):
        done = invoke("run", *words)
        assert done.status == EXIT_USAGE
        assert [line.partition(": Field")[0].partition(": Input")[0] for line in done.err.splitlines()] == [
            f"krepro: {example}/experiment.yaml:1: field {field}" for field in ("name", "paper", "workloads", "arms")
        ]


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("experiment.yaml", EXPERIMENT.replace("2024", "soon"), "experiment.yaml:2: field paper.year: Input should be"),
        ("experiment.yaml", EXPERIMENT.replace("arms:", "arms: {"), "experiment.yaml:8: not valid YAML: "),
        ("analysis.py", "import nonsense\n", "analysis.py:1: ModuleNotFoundError: No module named 'nonsense'"),
        ("analysis.py", "x = 1\ndef tables(:\n", "analysis.py:2: SyntaxError: invalid syntax"),
    ],
)
@needs_guest_packages
def test_slips_in_an_experiment_are_named_by_file_and_line(invoke, example, file, text, says):
    (example / file).write_text(text)
    assert refused(invoke("run", str(example))).startswith(f"{example}/{says}")


@pytest.mark.parametrize(("word", "lines"), [("quick", [7]), ("full", [7, 9])])
@needs_guest_packages
def test_an_unknown_kernel_is_named_before_anything_is_built(invoke, example, tmp_path, word, lines):
    path = example / "experiment.yaml"
    path.write_text(EXPERIMENT.replace("kernel: classic", "kernel: antique"))
    done = invoke("run", str(example), "--results", str(tmp_path / "results"), "--profile", word)
    assert done.status == EXIT_USAGE
    told = [text.partition(", classic-")[0] for text in done.err.splitlines()]
    assert told == [f"krepro: {path}:{line}: unknown kernel 'antique' (known: classic" for line in lines]
    assert not list((tmp_path / "results").glob("*/*")), "nothing half-written"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("virtual, cpus: 2", "this kernel drives one CPU only"),
        ("virtual, session: ssh", "the virtual clock has no network card"),
        ("virtual, devices: [disk]", "device disk completes at moments that the host decides"),
        ("wall, cpus: 2", "this kernel drives one CPU only"),
    ],
)
@needs_guest_packages
def test_impossible_arms_are_refused_with_the_reason(invoke, example, tmp_path, change, says):
    (example / "experiment.yaml").write_text(EXPERIMENT.replace("virtual, params: {offset: 0}", change))
    line = refused(invoke("run", str(example), "--results", str(tmp_path / "r")))
    assert line.startswith(f"{example}/experiment.yaml:7: arm left: {says}")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("replay", "nonsense"), "no result set 'nonsense'"),
        (("boot", "nonsense"), "unknown kernel 'nonsense' (known: classic"),
        (("boot", "kernel=classic", "--cpus", "x"), "--cpus x: must be a whole number"),
        (("boot", "experiment=x"), "expected kernel=… or just its value"),
        (("build", "--kernel", "nonsense"), "unknown kernel 'nonsense'"),
        (("nightly", "--minutes", "x"), "--minutes x: must be a whole number"),
        (("nightly", "--profile", "x"), "--profile x: must be one of quick, full"),
        (("nightly", "--experiment", ","), "--experiment ,: names no experiment"),
        (("nightly", "--experiment", "nonsense"), "unknown experiment 'nonsense'"),
        (("nightly", "--minutes", "0", "--out", "/dev/null"), "--out /dev/null: is no folder"),
        (("nightly", "--minutes", "0", "--out", "/dev/null/x"), "--out /dev/null/x: /dev/null is no folder"),
        (("bench", "--repetitions", "0"), "--repetitions 0: must be 1 or more"),
        (("bench", "--repetitions", "x"), "--repetitions x: must be a whole number"),
    ],
)
@needs_guest_packages
def test_other_tasks_refuse_wrong_words(invoke, words, says):
    assert says in refused(invoke(*words))


@pytest.mark.parametrize("name", ["trace", "locks"])
def test_a_program_that_is_not_there_is_told_before_anything_is_built(invoke, tmp_path, monkeypatch, name):
    monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "store"))
    assert "no program called nosuchprogram on PATH" in refused(invoke(name, "--exec", "nosuchprogram"))
    assert not any(path.is_file() for path in (tmp_path / "store").rglob("*"))


#: What can be known of a guest before there is a kernel for it.
NO_GUESTS = [
    (("boot", "classic", "--cpus", "2", "--exec", "true"), "boot classic: this kernel drives one CPU only"),
    (("boot", "classic", "--cpus", "0"), "--cpus 0: must be 1 or more"),
    (("boot", "modern-6.1", "--cpus", "65"), "--cpus 65: must be 64 or less"),
    (
        ("boot", "modern-6.1", "--cpus", "9", "--exec", "true"),
        "boot modern-6.1: cpus 9: kernel modern-6.1 is built for 8",
    ),
    (("locks", "--cpus", "9", "--exec", "true"), "arm program: cpus 9: kernel modern-6.1-stacks is built for 8"),
    (("boot", "classic", "--exec", "true", "--out", "/"), "--out /: name a file or a folder in it"),
    (("boot", "classic", "--exec", "true", "--out", "x:/proc/x"), "--out /proc/x: cannot write in /proc: "),
    (("boot", "classic", "--exec", "true", "--out", "x:/absent/x"), "/absent/x: --out: its folder is not"),
    (("trace", "--memory", "999999999", "--exec", "true"), "--memory 999999999: this host has "),
    (("locks", "--memory", "999999999", "--exec", "true"), "--memory 999999999: this host has "),
    (("kvmhost", "--memory", "999999999", "--exec", "true"), "--memory 999999999: this host has "),
    (("kvmhost", "--exec", "absent"), "absent: is no program of this host"),
    (("kvmhost", "--exec", " "), "--exec: is no program of this host"),
    (("kvmhost", "--exec", "a 'b"), "--exec a 'b: No closing quotation"),
    (("trace", "--exec", "a 'b"), "--exec a 'b: No closing quotation"),
    (("kvmhost", "--exec", "true", "--out", "/proc/x"), "--out /proc/x: cannot write in /proc: "),
]


@pytest.mark.parametrize(("words", "says"), NO_GUESTS, ids=[" ".join(words) for words, _ in NO_GUESTS])
@needs_guest_packages
def test_what_no_guest_can_be_is_told_before_anything_is_built(invoke, tmp_path, monkeypatch, words, says):
    monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "store"))
    assert says in refused(invoke(*words))
    assert not (tmp_path / "store").exists()


WRITING = [(name, option) for name in COMMANDS for option in COMMANDS[name].parameters if option.option.writes]


def test_all_that_write_where_they_are_told_say_so():
    told = {name for name in COMMANDS for option in COMMANDS[name].parameters if option.name == "out"}
    assert told - {name for name, _ in WRITING} == {"kvmhost", "boot"}, "whose files are lists"


@pytest.mark.parametrize(("name", "option"), WRITING, ids=[name for name, _ in WRITING])
def test_a_place_that_cannot_be_written_is_told_before_anything_is_made(name, option, tmp_path):
    (tmp_path / "file").touch()
    for place, says in ((Path("/proc/x"), "cannot write in /proc: "), (tmp_path / "file/x", "file is no folder")):
        with pytest.raises(UsageError, match=f"^{option.flag} {re.escape(str(place))}: .*{says}"):
            option.value(str(place))
    assert option.value(str(tmp_path / "a/b")) == tmp_path / "a/b"
    assert [path.name for path in tmp_path.iterdir()] == ["file"], "nothing is left behind"
    if option.option.writes == "folder":
        with pytest.raises(UsageError, match="file: is no folder"):
            option.value(str(tmp_path / "file"))


def test_a_first_word_that_is_no_command_is_told_before_there_is_an_environment():
    with pytest.raises(UsageError, match="No idea what 'nonsense' is!"):
        check_command(["nonsense", "irq-hotspot"])
    for words in ([], ["--list"], ["run", "nonsense"]):
        check_command(words)


def test_an_empty_store_without_room_is_told_before_anything_is_fetched(invoke, tmp_path, monkeypatch):
    monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "store"))
    monkeypatch.delenv("KREPRO_HOST_TOOLS", raising=False)
    full = shutil.disk_usage(tmp_path)._replace(free=2 << 30)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: full)
    line = refused(invoke("run", "irq-hotspot", "--results", str(tmp_path / "results")))
    assert line.startswith(f"{tmp_path}/store: 2.0 GiB are free, and the tools and a kernel need 3 (")
    assert not list(tmp_path.iterdir())


@needs_guest_packages
def test_debug_lets_the_traceback_through(invoke):
    with pytest.raises(UsageError, match="unknown experiment 'nonsense'"):
        invoke("run", "nonsense", "--debug")


@pytest.mark.parametrize(
    ("action", "status", "says"),
    [
        (lambda: None, 0, ""),
        (lambda: 0, 0, ""),
        (lambda: 1, 1, ""),
        (UsageError("wrong", where="file:3", hint="do this"), EXIT_USAGE, "krepro: file:3: wrong (do this)\n"),
        (RunError("two\n  lines"), EXIT_RUN_FAILED, "krepro: two lines\n"),
        (KeyboardInterrupt(), 130, "krepro: interrupted"),
        (ZeroDivisionError("by 0"), EXIT_RUN_FAILED, "krepro: unexpected ZeroDivisionError: by 0 (a bug of krepro at "),
    ],
)
def test_how_an_action_ends_is_the_exit_code(capfd, action, status, says):
    def run() -> int | None:
        if isinstance(action, BaseException):
            raise action
        return action()

    with pytest.raises(Exit) if status else nullcontext() as ended:
        terminal.guarded(run)
    if ended is not None:
        assert ended.value.code == status
    assert capfd.readouterr().err.startswith(says)


def test_a_folder_that_finds_no_room_is_no_bug(capfd, tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    for folder in (source, target):
        folder.mkdir()
    (source / "x").write_text("much")
    (target / "x").symlink_to("/dev/full")
    with pytest.raises(Exit) as ended:
        terminal.guarded(lambda: shutil.copytree(source, target, dirs_exist_ok=True) and None)
    assert ended.value.code == EXIT_RUN_FAILED
    assert capfd.readouterr().err == f"krepro: {target}/x: No space left on device\n"


@pytest.mark.parametrize("words", [("--list",), ("--version",), ("run", "--help"), ("doctor",)])
def test_no_room_for_what_is_printed_is_one_line(words):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "harness.commands.program", *words],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == EXIT_RUN_FAILED
    assert re.fullmatch(r"krepro: (standard output: )?No space left on device\n", done.stderr)


def test_sigterm_ends_in_order():
    code = (
        "import os, signal\nfrom harness.cli import terminal\n"
        "def wait():\n    try:\n        os.kill(os.getpid(), signal.SIGTERM)\n        signal.pause()\n"
        "    finally:\n        print('cleaned up')\n"
        "try:\n    terminal.guarded(wait)\nexcept BaseException as e:\n    print(e.code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.stdout == "cleaned up\n130\n"
    assert done.stderr.startswith("krepro: interrupted")


def test_errors_of_workers_come_back_whole():
    import pickle

    error: KreproError = pickle.loads(pickle.dumps(UsageError("wrong", where="here", hint="do")))
    assert (type(error), str(error), error.exit_code) == (UsageError, "here: wrong (do)", EXIT_USAGE)


def test_output_is_wide_without_a_terminal(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert terminal.output().width >= 120
    monkeypatch.setenv("COLUMNS", "90")
    assert terminal.output().width == 90


def test_predict_answers_and_refuses_in_one_line(invoke, tmp_path):
    def predict(*words: str | Path, **options: str) -> Done:
        given = [text for name, value in options.items() for text in (f"--{name}", value)]
        return invoke("predict", "--result", shlex.join(map(str, words)), *given)

    model, script = tmp_path / "model.json", tmp_path / "script.yaml"
    model.write_text(json.dumps(MODEL))
    script.write_text("workload: {cost: 1000}\nprobes: [{provider: kprobe-int3, firings: 0}]\n")
    done = predict(model, script)
    assert done.status == 0, done.err
    assert "slowdown: exactly 1.0x" in done.out
    script.write_text("workload: {cost: 1000}\nprobes: [{provider: dtrace, firings: 1}]\n")
    assert refused(predict(model, script)).startswith("the model has no provider 'dtrace' (it has ")
    script.write_text("workload: loop\nprobes: [{provider: kprobe-int3, point: g}]\n")
    assert "unknown probe 'kprobe-int3 g'" in refused(predict(model, script))
    assert refused(predict("x")).startswith("x: what to predict is needed")
    assert "one script at a time, not 2" in refused(predict(model, script, "f { }"))
    assert "for other tools' scripts" in refused(predict(model, script, below="2"))
    assert "--kernel: is of a guest" in refused(predict(model, script, kernel="debian:6.12"))
    assert "one of them" in refused(predict(model, script, live="1", exec="true"))
    assert "cannot be read: No such file or directory" in refused(predict(model, tmp_path / "none.bt"))


def test_a_script_of_bpftraces_needs_bpftrace(invoke, tmp_path, monkeypatch):
    model = tmp_path / "model.json"
    model.write_text(json.dumps(MODEL))
    monkeypatch.setenv("PATH", str(tmp_path))
    told = refused(invoke("predict", "--result", shlex.join([str(model), "kprobe:f { @ = count(); }"])))
    missing = "a script of bpftrace's is compiled by bpftrace, which is not here"
    assert told == f"{missing} (install it: apt install bpftrace)"


def test_kernels_are_listed_with_what_they_are(invoke):
    listed = invoke("build")
    assert listed.status == 0
    assert "classic" in listed.out
    assert "one CPU; patches: irq-hotspot" in listed.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--out", "{0}"), "{0}: is there already (remove it, or choose another with --out)"),
        (("--kind", "undo", "--kernel", "debian:6.12"), "--kernel: not with undo"),
        (("--kind", "undo", "--out", "{0}.json"), "--out: not with undo"),
        (("--kernel", "debian:9.9", "--out", "{0}.json"), "kernels.lock has no kernel debian:9.9"),
    ],
)
@needs_guest_packages
def test_what_cannot_be_calibrated_is_told_at_once(invoke, tmp_path, words, says):
    there = tmp_path / "there"
    there.touch()
    assert says.format(there) in refused(invoke("calibrate", *(word.format(there) for word in words)))
    assert list(tmp_path.iterdir()) == [there]


@needs_guest_packages
def test_a_host_is_measured_by_root_on_its_first_cpu(invoke, tmp_path, monkeypatch):
    target = str(tmp_path / "x")
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: 1000)
        for words in (("calibrate", "--out", target), ("calibrate", "--kind", "undo")):
            assert "is for root (run it as root, or calibrate a guest with --kernel)" in refused(invoke(*words))
        patched.setattr(os, "geteuid", lambda: 0)
        patched.setattr(os, "sched_getaffinity", lambda _pid: {1})
        assert "may not run on CPU 0" in refused(invoke("calibrate", "--out", target))
    assert not list(tmp_path.iterdir())
