# SPDX-License-Identifier: MIT
"""What a hostile analysis does: it reaches nothing, and however it ends, one line says so and all else is kept."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from harness.analysis import contained as containing
from harness.analysis import trust, verification
from harness.analysis.analyse import analyse
from harness.analysis.contained import Contained
from harness.artefacts.store import hash_tree
from harness.commands.figures import figures
from harness.errors import EXIT_RUN_FAILED, KreproError, RunError, UsageError
from harness.experiment.model import load_experiment
from harness.machine import syscalls
from harness.machine.sandbox import Sandbox, sandbox_of_analyses
from harness.paths import ROOT
from harness.program import prediction
from harness.run import merging, reanalysis
from harness.run.executor import worker_pool
from harness.sets.resultset import ResultSet, Writer
from tests.hostile.made import resealed
from tests.hostile.sets import ANSWERS, ATTACKS, ENDINGS, FORGED, IS_PIPE, attacking
from tests.parts import write_part
from tests.result_sets import ANALYSIS, YAML, experiment_folder, write_set
from tests.unit.test_export import HOOKS

#: What this host has, looked up before tests have stores of their own, without tools; and what it has without these.
BOXES = [
    box for box in (sandbox_of_analyses(), Sandbox((), filtered=True, why="a test", landlock=True)) if box.keeps_in
]
QUIET = Console(quiet=True)
VIRTUAL = YAML.replace("  wall: {kernel: classic, clock: wall}\n", "") + "repetitions: {quick: 2}\n"
PREDICTING = (
    "\n\ndef documents(tables):\n    return {'model': {}}\n\n\ndef predict(document, script):\n    return {}, []\n"
)
TIME_S = 120

pytestmark = pytest.mark.skipif(not BOXES, reason="this host has no sandbox")


def opening(path: Path, out: Path) -> dict[str, Callable[[], object]]:
    """Each command that executes the analysis of the set at `path`, by name; they write below `out`, or beside it."""
    results, text = path.parent.parent, str(path)
    shutil.copytree(path, out / "other" / path.name)
    (out / "script").touch()
    return {
        "verify": lambda: verification.verify(results, text, QUIET, trust=True),
        "figures": lambda: figures(text, "svg", out / "figures", results, trust=True),
        "analyse": lambda: reanalysis.reanalyse(results, text, None, QUIET, verbose=False, trust=True),
        "predict": lambda: prediction.predict_script(results, text, out / "script", QUIET, trust=True),
        "merge": lambda: merging.merge(
            results, [text, str(out / "other" / path.name)], QUIET, verbose=False, trust=True
        ),
    }


COMMANDS = ("verify", "figures", "analyse", "predict", "merge")


def strangers(tmp_path: Path, more: str = "", early: str = "") -> ResultSet:
    """A set that another host made, whose analysis.py is longer than that of its run by `early` and `more`."""
    folder = experiment_folder(tmp_path / "theirs", VIRTUAL, ANALYSIS + HOOKS + PREDICTING)
    made = write_part(tmp_path / "results", folder)
    file = made.path / "experiment/analysis.py"
    file.write_text(early + file.read_text() + more)
    return ResultSet(resealed(made))


# -- what it reaches ------------------------------------------------------------------------------------------------


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((box, name), marks=[pytest.mark.deep] * (name != "verify"))
        for box in BOXES
        for name in COMMANDS
        if name in ("verify", "figures") or box.program
    ],
    ids=lambda param: f"{param[1]}-{'view' if param[0].program else 'landlock'}",
)
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What became of each of ATTACKS, in one kind of sandbox, by one command."""
    box, name = request.param
    folder = tmp_path_factory.mktemp("attacked")
    secret = folder / "secret"
    secret.write_text("mine")
    with (
        pytest.MonkeyPatch.context() as patch,
        secret.open("r+") as inherited,
        socket.create_server(("127.0.0.1", 0)) as port,
        socket.socket(socket.AF_UNIX) as listening,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        os.set_inheritable(inherited.fileno(), True)
        listening.bind(str(folder / "s"))
        listening.listen()
        abstract.bind(f"\0krepro-{os.getpid()}")
        abstract.listen()
        patch.setenv("KREPRO_SECRET", "mine")
        patch.setenv("KREPRO_STORE", str(folder / "their-store"))
        patch.setattr(trust, "sandbox_of_analyses", lambda fetch: box)
        where = (str(secret), str(folder / "s"), f"krepro-{os.getpid()}", port.getsockname()[1], str(Path.home()))
        stat = secret.stat()
        code = attacking((stat.st_dev, stat.st_ino), (*where, sysconfig.get_path("purelib"), str(ROOT)))
        path = strangers(folder, early=code).path
        before = hash_tree(path)
        patch.setenv("KREPRO_STORE", str(folder / "store"))
        (folder / "out").mkdir()
        with pytest.raises(KreproError) as caught:
            opening(path, folder / "out")[name]()
        assert hash_tree(path) == before
        assert secret.read_text() == "mine"
        assert not (Path.home() / ".krepro-hostile").exists()
    found = re.search(r"outcomes (\{.*?\})", str(caught.value))
    assert found, str(caught.value)
    return json.loads(found[1])


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_an_attack_reaches(outcomes, attack):
    in_memory = attack == "home" and Path.home().is_relative_to("/tmp")  # where a view has folders of its own
    assert outcomes[attack] != "done" or in_memory


def test_no_attack_was_left_out(outcomes):
    assert outcomes.keys() == ATTACKS.keys()
    assert outcomes["tiocsti"] == outcomes["keyctl"] == outcomes["fork"] == outcomes["unshare"] == "EPERM"
    assert outcomes["clone3"] == "ENOSYS"


# -- how it ends ----------------------------------------------------------------------------------------------------

#: Of ENDINGS, those that are tried each time: the codes of verdicts and of Ctrl-C, a crash, and none at all.
SHALLOW = ("os._exit(1)", "Ctrl-C", "SIGSEGV", "SIGKILL", "no end")
HOOK = "\n\ndef tables(trials):\n    for trial in trials:\n        {ending}\n"


def analysed(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch, box: Sandbox = BOXES[0], *, short: bool = False
) -> KreproError:
    """The error of an analysis of one's own that ends by `code`; `short`: it has no time."""
    folder = experiment_folder(tmp_path / "own", YAML, ANALYSIS)
    made = write_set(tmp_path / "results", folder, {"short": [100.0, 101.0]})
    (folder / "analysis.py").write_text(ANALYSIS + code)
    (tmp_path / "new").mkdir()
    with Contained(folder, made.path, shut=box) as analysis:
        analysis.check(made.manifest.experiment)
        if short:
            monkeypatch.setattr(containing, "MOST_S", 3.0)
        with pytest.raises(KreproError) as caught:
            analyse(analysis, made.manifest.experiment.claims, made.trials, Writer(tmp_path, tmp_path / "new"))
    error = caught.value
    assert "\n" not in str(error)
    return error


@pytest.mark.parametrize(
    "name", [name if name in SHALLOW else pytest.param(name, marks=pytest.mark.deep) for name in ENDINGS]
)
def test_however_an_analysis_ends_one_line_says_which_hook_which_trial_and_what(tmp_path, monkeypatch, name):
    code, says = ENDINGS[name]
    # The first process of its own gets no signal that it has not asked for.
    box = BOXES[-1] if "SIG" in says else BOXES[0]
    error = analysed(tmp_path, HOOK.format(ending=code), monkeypatch, box, short="did not end" in says)
    assert error.exit_code == EXIT_RUN_FAILED
    assert re.search(says, str(error)), str(error)
    assert "tables()" in str(error)
    assert "trial short 0" in str(error)


@pytest.mark.deep
@pytest.mark.parametrize("name", FORGED)
def test_what_it_hands_out_is_data_of_a_declared_form(tmp_path, monkeypatch, name):
    code, says = FORGED[name]
    lines = "\n".join(f"    {line}" for line in (ANSWERS + code).strip().splitlines())
    hook = f"\n\ndef metrics(tables):\n    global _out\n{lines}\n    import time; time.sleep(1e6)\n"
    error = analysed(tmp_path, IS_PIPE + hook, monkeypatch)
    assert re.search(says, str(error)), str(error)
    assert not (tmp_path / "escaped").exists()
    assert not [path for path in (tmp_path / "new").rglob("metrics.parquet") if path.stat().st_size], "nothing half"


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.deep
def test_a_command_outlives_what_it_executes(tmp_path, monkeypatch, name):
    """At e4efdb2 `os._exit(1)` of a set's code in `analyse`, `merge` and `predict` was a command's 1."""
    monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "their-store"))
    made = strangers(tmp_path, "\n\nimport os; os._exit(1)\n")
    monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(trust, "sandbox_of_analyses", lambda fetch: BOXES[0])
    before = sorted(made.path.parent.iterdir())
    (tmp_path / "out").mkdir()
    with pytest.raises(RunError, match="import ended its process with status 1"):
        opening(made.path, tmp_path / "out")[name]()
    assert sorted(made.path.parent.iterdir()) == before, "and it leaves nothing"


@pytest.mark.deep
def test_what_fails_after_the_verdicts_costs_what_it_would_have_shown(tmp_path):
    folder = experiment_folder(tmp_path, YAML, f"{ANALYSIS}\n\ndef figures(tables):\n    import os; os._exit(1)\n")
    made = write_set(tmp_path / "results", experiment_folder(tmp_path / "x"), {"short": [100.0]})
    (tmp_path / "new").mkdir()
    with Contained(folder, made.path, shut=BOXES[0]) as analysis:
        again = analyse(analysis, made.manifest.experiment.claims, made.trials, Writer(tmp_path, tmp_path / "new"))
    assert [claim.verdict for claim in again.claims] == [claim.verdict for claim in made.claims]
    (failure,) = again.failures
    assert str(failure) == f"{folder}/analysis.py: figures() ended its process with status 1"


@pytest.mark.deep
def test_it_outlives_the_workers_that_run_trials(tmp_path):
    """What a pool leaves behind is killed: an analysis that waits for trials is none of it."""
    folder = experiment_folder(tmp_path)
    experiment = load_experiment(folder)
    with Contained(folder, shut=BOXES[0]) as analysis:
        analysis.check(experiment)
        with worker_pool(1) as pool:
            assert pool.submit(int, "1").result() == 1
        analysis.check(experiment)


def test_verdicts_are_judged_outside(tmp_path, monkeypatch):
    """Whatever the analysis makes of this project in its process. At e4efdb2 it was judged there."""
    everything = (
        "\nimport harness.analysis.analyse as _a, harness.measure.claims as _c\n"
        "_real = _c.judge\n"
        "_c.judge = _a.judge = lambda *w, **k: [r.model_copy(update={'verdict': 'refuted'}) for r in _real(*w, **k)]\n"
    )
    folder = experiment_folder(tmp_path, YAML, ANALYSIS + everything)
    made = write_set(tmp_path / "results", experiment_folder(tmp_path / "x"), {"short": [100.0]})
    (tmp_path / "new").mkdir()
    with Contained(folder, made.path, shut=BOXES[0]) as analysis:
        again = analyse(analysis, made.manifest.experiment.claims, made.trials, Writer(tmp_path, tmp_path / "new"))
    assert [claim.verdict for claim in again.claims] == ["reproduced", "reproduced"]


def test_what_an_analysis_of_ones_own_prints_is_shown_and_a_strangers_is_not(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "store"))
    folder = experiment_folder(tmp_path / "own", YAML, f"{ANALYSIS}\nprint('mine \\x1b[31m')\n")
    made = write_set(tmp_path / "results", folder, {"short": [100.0]})
    capfd.readouterr()
    for strange, times in ((False, 1), (True, 0)):
        with Contained(folder, made.path, strange=strange, shut=BOXES[0]) as analysis:
            analysis.check(made.manifest.experiment)
        told = capfd.readouterr().err
        assert told.count("mine") == times
        assert "\x1b[31m" not in told


# -- commands in processes of their own -----------------------------------------------------------------------------


def words_of(made: ResultSet, *more: str) -> list[str]:
    inv = [sys.executable, "-m", "harness.commands.program"]
    return [*inv, "verify", str(made.path), "--results", str(made.path.parent.parent), *more]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ResultSet]:
    def make(more: str = "") -> ResultSet:
        with monkeypatch.context() as there:
            there.setenv("KREPRO_STORE", str(tmp_path / "their-store"))
            return strangers(tmp_path, more)

    monkeypatch.delenv("KREPRO_STORE", raising=False)
    return make


TYPES = r"""
import fcntl as _f, os as _o
for _name in ("/dev/tty", "/dev/stdin", "/dev/fd/0", "/dev/fd/1", "/dev/fd/2", "/proc/self/fd/2"):
    try:
        _t = _o.open(_name, _o.O_RDWR)
        for _c in b"typed\n":
            _f.ioctl(_t, 0x5412, bytes([_c]))
    except OSError:
        pass
"""


def test_no_key_stroke_is_pushed_into_the_users_terminal(elsewhere):
    """At e4efdb2 the line came out at the user's shell."""
    made = elsewhere(TYPES)
    child, terminal = pty.fork()
    if child == 0:
        settings = termios.tcgetattr(0)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(0, termios.TCSANOW, settings)
        status = os.spawnv(os.P_WAIT, sys.executable, words_of(made, "--trust"))
        typed, _, _ = select.select([0], [], [], 0.5)
        os.write(1, b"\nTYPED " + (os.read(0, 100) if typed else b"nothing") + b" STATUS %d\n" % status)
        os._exit(0)
    said = b""
    while True:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:
            break
        if not data:
            break
        said += data
    os.waitpid(child, 0)
    assert b"TYPED nothing STATUS 0" in said, said.decode(errors="replace")


def test_ctrl_c_of_the_user_is_told_from_that_of_an_analysis(elsewhere, tmp_path):
    made = elsewhere("\nimport time\nprint('begun', flush=True)\ntime.sleep(1e6)\n")
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    with subprocess.Popen(words_of(made, "--trust"), stderr=subprocess.PIPE, env=environment, cwd=ROOT) as command:
        assert command.stderr is not None
        while not list((tmp_path / "tmp").glob(".krepro-inside*")):
            assert command.poll() is None
            time.sleep(0.1)
        time.sleep(1)
        command.send_signal(signal.SIGINT)
        told = command.stderr.read().decode()
        assert command.wait() == 130
    assert told.splitlines()[-1].startswith("krepro: interrupted")
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(made.path).encode() in _read(path)]
    assert not list((tmp_path / "tmp").iterdir())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


#: Runs a command where the kernel refuses these system calls too.
WITHOUT = """
import os, sys
from harness.machine import confine, syscalls
syscalls.REFUSED |= {{"landlock": (444, 444)}} if {landlock} else {{}}
confine.refuse(syscalls.program(analysis=False))
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize(("landlock", "trusted", "code"), [(False, "", 0), (True, "", 2), (True, "=unsandboxed", 0)])
def test_without_user_namespaces_there_is_landlock_and_without_that_it_is_refused(elsewhere, landlock, trusted, code):
    """At e4efdb2 it was executed with all rights, after a warning."""
    made = elsewhere()
    words = [sys.executable, "-c", WITHOUT.format(landlock=landlock), *words_of(made, f"--trust{trusted}")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == code, done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("krepro: ")]
    assert len(told) == landlock
    if landlock:
        assert "bubblewrap does not work here: " in told[0]
        assert "this kernel's Landlock is not version 3 or later" in told[0]
        assert trusted or "--trust=unsandboxed executes it with your rights" in told[0]


def test_the_reason_is_the_true_one(tmp_path, monkeypatch):
    """At e4efdb2 it was always that this host allows no user namespaces."""
    from harness.machine import sandbox

    monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "empty"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sandbox.confine, "landlock_version", lambda: 2)
    sandbox._sandbox_of_analyses.cache_clear()
    try:
        told = sandbox_of_analyses()
    finally:
        sandbox._sandbox_of_analyses.cache_clear()
    assert not told.keeps_in
    assert told.why == (
        "the host has no bubblewrap and the tools are not fetched yet and "
        "this kernel's Landlock is not version 3 or later"
    )


def test_a_cpu_without_a_table_has_no_filter(monkeypatch):
    monkeypatch.setattr(syscalls.os, "uname", lambda: type("", (), {"machine": "riscv64"}))
    assert syscalls.program(analysis=True) is None
    assert not Sandbox(("bwrap",), filtered=False).keeps_in


def test_an_unsandboxed_stranger_is_refused_or_said(tmp_path, monkeypatch):
    monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "their-store"))
    made = strangers(tmp_path)
    monkeypatch.setenv("KREPRO_STORE", str(tmp_path / "store"))
    monkeypatch.setattr(trust, "sandbox_of_analyses", lambda fetch: Sandbox((), filtered=True, why="a reason"))
    (tmp_path / "out").mkdir()
    for action in opening(made.path, tmp_path / "out").values():
        with pytest.raises(UsageError, match=r"there is no sandbox for it: a reason \(--trust=unsandboxed executes it"):
            action()
