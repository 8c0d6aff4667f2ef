# SPDX-License-Identifier: MIT
"""Whose a set is: whatever a stranger does to one, it is refused in one line, or it stays a stranger's."""

from __future__ import annotations

import io
import os
import shutil
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from rich.console import Console

from harness.analysis import contained
from harness.analysis.contained import Contained
from harness.analysis.trust import execute
from harness.analysis.verification import verify, verify_capsule
from harness.artefacts.store import hash_file, hash_tree
from harness.capsule import archive
from harness.commands.verify import verify as verify_command
from harness.errors import EXIT_RUN_FAILED, EXIT_USAGE, KreproError, RunError, UsageError
from harness.experiment.model import load_experiment
from harness.machine.sandbox import Sandbox
from harness.run.merging import merge
from harness.run.reanalysis import reanalyse
from harness.run.reexecution import replay
from harness.run.request import RunRequest
from harness.run.resuming import earlier_set, take_earlier
from harness.run.unfinished import open_run
from harness.sets.listing import set_paths
from harness.sets.maker import is_known, is_vouched_for, made_here
from harness.sets.resultset import EXPERIMENT, MANIFEST, MEASURED, ResultSet, copy_experiment, find_result_set
from harness.sets.seal import unchanged, verify_files
from harness.sets.signature import signature_file
from tests.hostile.made import commands, forged, key, resealed, signed, signers
from tests.parts import write_part
from tests.result_sets import ANALYSIS, YAML, experiment_folder, record, write_set
from tests.unit.test_unfinished import WORDS, begun, ended, spec

CONSOLE = Console(quiet=True)
VIRTUAL = YAML.replace("  wall: {kernel: classic, clock: wall}\n", "") + "repetitions: {quick: 3}\n"
WITHOUT_KEYGEN = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen here")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return experiment_folder(tmp_path, VIRTUAL)


@pytest.fixture
def made(results: Path, folder: Path) -> ResultSet:
    return write_set(results, folder, {"short": [100.0, 101.0]})


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Any]:
    """Does something as another host would, whose store has another key."""

    def do(action: Callable[[], Any]) -> Any:
        with monkeypatch.context() as there:
            there.setenv("KREPRO_STORE", str(tmp_path / "their-store"))
            return action()

    return do


def newest(results: Path) -> ResultSet:
    return ResultSet(set_paths(results)[0])


def refused(error: KreproError) -> None:
    """In one line, with a code that says it."""
    assert "\n" not in str(error)
    assert error.exit_code in (EXIT_USAGE, EXIT_RUN_FAILED)


# -- laundering -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "theirs", [(1,), *(pytest.param(some, marks=pytest.mark.deep) for some in ((0,), (2,), (0, 1), (0, 1, 2)))]
)
def test_a_strangers_trial_united_with_ours_is_a_strangers(folder, results, elsewhere, theirs):
    """At e4efdb2 the union of one of ours and any others was made here."""
    for number in range(3):
        make = lambda number=number: write_part(results, folder, repetitions=f"{number}:{number + 1}/3")  # noqa: E731
        elsewhere(make) if number in theirs else make()
    parts = [str(path) for path in set_paths(results)]
    merge(results, parts, CONSOLE, verbose=False, trust=True)
    union = newest(results)
    assert len(union.manifest.merged_from) == 3
    assert not made_here(union.path)
    assert not is_known(union.path, "waits")
    with pytest.raises(UsageError, match="was not made on this host"):
        verify(results, str(union.path), CONSOLE)
    with pytest.raises(UsageError, match="was not made on this host"):
        replay(results, str(union.path), None, CONSOLE)


def test_ours_united_are_ours(folder, results):
    parts = [write_part(results, folder, repetitions=f"{number}:{number + 1}/3") for number in range(3)]
    merge(results, [str(one.path) for one in parts], CONSOLE, verbose=False)
    assert made_here(newest(results).path)


@pytest.fixture
def projects(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The experiment's folder, as one that comes with the project."""
    own = tmp_path / "experiments"
    own.mkdir()
    folder.rename(own / "waits")
    for module in ("harness.sets.maker", "harness.experiment.model", "harness.run.reexecution"):
        monkeypatch.setattr(f"{module}.EXPERIMENTS", own)
    return own / "waits"


@pytest.mark.deep
def test_what_the_projects_code_makes_of_a_strangers_data_is_a_strangers(projects, results, elsewhere):
    """At e4efdb2 it was made here, and with it a recording's log, which QEMU believes."""
    theirs = elsewhere(lambda: write_set(results, projects, {"short": [100.0]}))
    assert is_known(theirs.path, "waits")
    reanalyse(results, str(theirs.path), None, CONSOLE, verbose=False)
    assert newest(results).path != theirs.path
    assert not made_here(newest(results).path)
    reanalyse(results, str(newest(results).path), projects, CONSOLE, verbose=False)
    assert not made_here(newest(results).path), "nor what is made of that"


def test_code_of_the_project_with_a_file_less_is_not_the_projects(projects, tmp_path):
    """At e4efdb2 it was: each file that there was had to be the project's, and none had to be there."""
    (projects / "decoder.py").write_text("def decode(): ...\n")
    copy_experiment(projects, tmp_path / "set")
    assert is_known(tmp_path / "set", "waits")
    (tmp_path / "set/experiment/decoder.py").unlink()
    assert not is_known(tmp_path / "set", "waits")
    (tmp_path / "none").mkdir()
    assert not is_known(tmp_path / "none", "waits")


def test_what_guests_execute_is_the_projects_or_is_asked_for(projects, results, elsewhere):
    """At e4efdb2 `replay` ran the manifest's shell text unasked where the folder beside it was the project's."""
    theirs = elsewhere(lambda: write_set(results, projects, {"short": [100.0]}))
    assert theirs.manifest.experiment == load_experiment(projects)
    command = {"command": "evil", "timeout_s": 60.0}
    path = forged(theirs, lambda values: values["experiment"]["workloads"].update(wait=command))
    assert is_known(path, "waits")
    with pytest.raises(UsageError, match="was not made on this host"):
        replay(results, str(path), None, CONSOLE)


def measured_there(results: Path, folder: Path, elsewhere: Callable[[Callable[[], Any]], Any]) -> ResultSet:
    """A stranger's set with a trial that a run of ours would take, for its description is the same."""
    trials = [record("short", 0, "virtual").model_copy(update={"description": "a"})]
    made: ResultSet = elsewhere(lambda: write_set(results, folder, {"short": [666.0]}, trials=trials))
    return made


def test_no_trial_of_a_strangers_is_reused(folder, results, tmp_path, elsewhere, capfd):
    """At e4efdb2 `--reuse` took it from any set of the folder, into a set that was made here."""
    theirs = measured_there(results, folder, elsewhere)
    options = RunRequest("waits", results=results, reuse=True)
    with open_run(results / "waits", WORDS, 1, fresh=True) as run:
        run.keep({("short", 0): "a"})
        take_earlier(run, [spec(run, 0, tmp_path)], options, None)
        assert run.sealed == {}
        run.finished()
    assert f"no trial is taken from {theirs.path.name}: it was not made on this host" in capfd.readouterr().err
    ours = write_set(results, folder, {"short": [100.0]}, trials=theirs.manifest.trials)
    with open_run(results / "waits", WORDS, 1, fresh=True) as run:
        run.keep({("short", 0): "a"})
        take_earlier(run, [spec(run, 0, tmp_path)], options, None)
        assert run.sealed["short", 0].taken_from == ours.path.name
        run.finished()


@pytest.mark.parametrize("whose", ["theirs", "ours"])
def test_what_is_resumed_of_a_strangers_set_is_a_strangers(folder, results, tmp_path, elsewhere, whose):
    """At e4efdb2 it was made here."""
    theirs = measured_there(results, folder, elsewhere)
    ours = write_set(results, folder, {"short": [100.0]}, trials=theirs.manifest.trials)
    options = RunRequest("waits", results=results, resume={"theirs": theirs, "ours": ours}[whose].path.name)
    with open_run(results / "waits", WORDS, 2, fresh=True) as run:
        run.keep({("short", 0): "a", ("short", 1): "b"})
        take_earlier(run, [spec(run, 0, tmp_path)], options, earlier_set(options, results / "waits"))
        ended(run, 1, tmp_path)
        assert len(run.sealed) == 2
        assert run.own == (whose == "ours")
    with open_run(results / "waits", WORDS, 2) as run:
        run.keep({("short", 0): "a", ("short", 1): "b"})
        assert len(run.sealed) == 2
        assert run.own == (whose == "ours"), "and when the run is gone on with"
        run.finished()


def test_no_strangers_run_is_gone_on_with(results, tmp_path, elsewhere, capfd):
    """At e4efdb2 a folder .unfinished among files from elsewhere was taken up by the next run with the same words."""
    home = results / "waits"
    elsewhere(lambda: begun(home, tmp_path, 0))
    with open_run(home, WORDS, 1) as run:
        run.keep({("short", 0): "a", ("short", 1): "b"})
        assert run.sealed == {}
        ended(run, 1, tmp_path)
        path = run.path
    assert "the first short 0: it was not sealed on this host" in capfd.readouterr().err
    seal = path / "trials/short/1.json"
    seal.write_text(seal.read_text().replace('"fidelity": "virtual"', '"fidelity": "kvm"'))
    with open_run(home, WORDS, 1) as run:
        run.keep({("short", 1): "b"})
        assert run.sealed == {}, "nor is a seal of ours with another record"


def test_a_copy_of_ours_is_ours_wherever_it_is(made, tmp_path):
    copy = tmp_path / "elsewhere/of/it" / made.path.name
    shutil.copytree(made.path, copy)
    assert made_here(copy)
    (tmp_path / "link").symlink_to(copy)
    assert find_result_set(tmp_path, str(tmp_path / "link")).path == copy
    copy.rename(copy.with_name(copy.name.replace("-", "-f")))
    assert not made_here(next(copy.parent.iterdir())), "the name is in the seal"


@pytest.mark.parametrize("name", ["analysis.py", "experiment.yaml", "more.py"])
def test_ours_with_other_code_is_not_ours(made, name):
    with (made.path / EXPERIMENT / name).open("a") as file:
        file.write("\n")
    assert not made_here(made.path)
    path = resealed(made)
    assert ResultSet(path).manifest.maker == made.manifest.maker, "its keyed hash was kept"
    assert not made_here(path)
    with pytest.raises(UsageError, match="was not made on this host"):
        verify(path.parent.parent, str(path), CONSOLE)


def test_ours_with_other_data_is_not_ours(made):
    (made.path / "raw/short/0/wait").write_text("1.0")
    assert not made_here(resealed(made))


def test_a_strangers_code_below_measured_is_not_ours(made):
    (made.path / MEASURED).mkdir()
    (made.path / MEASURED / "analysis.py").write_text(ANALYSIS)
    assert not is_known(made.path, "waits")
    assert not is_known(resealed(made), "waits")


def test_latest_of_a_strangers_folder_is_asked_for_too(results, folder, tmp_path, elsewhere):
    theirs = elsewhere(lambda: write_set(tmp_path / "theirs", folder, {"short": [100.0]}))
    ours = write_set(results, folder, {"short": [100.0]})
    (ours.path.parent / "latest").unlink()
    (ours.path.parent / "latest").symlink_to(theirs.path)
    with pytest.raises(UsageError, match="was not made on this host"):
        verify(results, "waits/latest", CONSOLE)


@pytest.mark.parametrize("place", ["", EXPERIMENT, f"{EXPERIMENT}/analysis.py"])
def test_code_that_anybody_can_change_is_not_known(projects, results, elsewhere, place):
    theirs = elsewhere(lambda: write_set(results, projects, {"short": [100.0]}))
    ours = write_set(results, projects, {"short": [100.0]})
    for one in (theirs, ours):
        assert is_known(one.path, "waits")
        (one.path / place).chmod(0o777)
        assert not is_known(one.path, "waits")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_code_that_another_user_owns_is_not_known(projects, results):
    ours = write_set(results, projects, {"short": [100.0]})
    os.chown(ours.path / EXPERIMENT / "analysis.py", 12345, -1)
    assert not is_known(ours.path, "waits")


# -- signatures -------------------------------------------------------------------------------------------------


@WITHOUT_KEYGEN
def test_what_is_not_signed_as_was_asked_for_is_an_error(made, tmp_path):
    """At e4efdb2 the first two ended with 0, and a bad signature with 3."""
    ada, bob = key(tmp_path, "ada"), key(tmp_path, "bob")
    signature = signature_file(made.path)

    def refused(says: str, allowed: Path) -> None:
        with pytest.raises(UsageError, match=says) as caught:
            verify(made.path.parent.parent, str(made.path), CONSOLE, signers=allowed)
        assert "\n" not in str(caught.value)

    refused("is unsigned", signers(tmp_path, ada=ada))
    signed(made.path, ada)
    good = signature.read_bytes()
    assert verify(made.path.parent.parent, str(made.path), CONSOLE, signers=signers(tmp_path, ada=ada)) == 0
    refused("is signed by a key that .* does not let sign now", signers(tmp_path, bob=bob))
    refused("is signed by a key that .* does not let sign now", signers(tmp_path, 'valid-before="20200101"', ada=ada))
    refused("is signed by a key that .* does not let sign now", signers(tmp_path, 'namespaces="git"', ada=ada))
    signature.write_bytes(good.replace(good[60:64], b"AAAA"))
    refused("is no signature", signers(tmp_path, ada=ada))
    signature.write_bytes(bytes(1 << 17))
    refused("is no signature", signers(tmp_path, ada=ada))
    signature.unlink()
    (tmp_path / "there").write_bytes(good)
    signature.symlink_to(tmp_path / "there")
    refused("cannot be read", signers(tmp_path, ada=ada))
    signature.unlink()
    os.mkfifo(signature)
    refused("is unsigned", signers(tmp_path, ada=ada))


@WITHOUT_KEYGEN
def test_a_signature_is_of_all_that_is_in_a_set(made, tmp_path):
    ada = key(tmp_path, "ada")
    signed(made.path, ada)
    allowed = signers(tmp_path, ada=ada)
    for place in ("experiment/analysis.py", "raw/short/0/wait", "metrics.parquet", "figures/waits.svg"):
        before = (made.path / place).read_bytes()
        (made.path / place).write_bytes(before + b" ")
        with pytest.raises(RunError, match=f"{place}: differs from what was written"):
            verify(made.path.parent.parent, str(made.path), CONSOLE, signers=allowed)
        (made.path / place).write_bytes(before)
    for place in ("experiment/more.py", "raw/short/0/more", "tables/more.parquet", "more"):
        (made.path / place).touch()
        with pytest.raises(RunError, match=f"{place}: is not of this set"):
            verify(made.path.parent.parent, str(made.path), CONSOLE, signers=allowed)
        (made.path / place).unlink()


@WITHOUT_KEYGEN
def test_code_that_a_trusted_key_signed_is_known_and_no_other(folder, results, tmp_path, elsewhere):
    ada, bob = key(tmp_path, "ada"), key(tmp_path, "bob")
    theirs = elsewhere(lambda: write_set(results, folder, {"short": [100.0]}))
    signed(theirs.path, ada)
    for_code = 'namespaces="git,krepro"'
    assert is_vouched_for(theirs.path, signers(tmp_path, for_code, ada=ada))
    assert verify(results, str(theirs.path), CONSOLE, signers=signers(tmp_path, for_code, ada=ada)) == 0
    assert not made_here(theirs.path), "who signs vouches for it, and did not measure it here"
    for options, who in (("", ada), ('namespaces="git"', ada), ('namespaces="*"', ada), (for_code, bob)):
        assert not is_vouched_for(theirs.path, signers(tmp_path, options, ada=who)), options
    expired = f'{for_code},valid-before="20200101"'
    assert not is_vouched_for(theirs.path, signers(tmp_path, expired, ada=ada))
    (theirs.path / EXPERIMENT / "more.py").touch()
    assert not is_vouched_for(theirs.path, signers(tmp_path, for_code, ada=ada)), "that is not what was signed"
    (theirs.path / EXPERIMENT / "more.py").unlink()
    moved = forged(theirs, lambda values: values.update(seed=2))
    signature_file(theirs.path).rename(signature_file(moved))
    assert not is_vouched_for(moved, signers(tmp_path, for_code, ada=ada))


# -- an analysis that edits what it reads -----------------------------------------------------------------------

RAW = "pathlib.Path(__file__).parents[1] / 'raw/short/0'"


@pytest.fixture
def unboxed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host on which an analysis of one's own is shut in by nothing."""
    monkeypatch.setattr(contained, "sandbox_of_analyses", lambda: Sandbox((), filtered=False, why="a test"))


EDITS = {
    "changes": ("(trials[0].path / 'wait').write_text('1')", "changed", "raw/short/0/wait"),
    "changes, and the times back": (
        "import os; f = trials[0].path / 'wait'; f.write_bytes(f.read_bytes()[::-1]); os.utime(f, (0, 0))",
        "changed",
        "raw/short/0/wait",
    ),
    "removes": ("(trials[0].path / 'qmp-events.json').unlink()", "removed", "raw/short/0/qmp-events.json"),
    "adds": ("(trials[0].path / 'more').touch()", "added", "raw/short/0/more"),
    "adds a trial": ("(trials[0].path.parent / '9').write_text('')", "added", "raw/short/9"),
    "adds a link": ("(trials[0].path / 'more').symlink_to('/etc/hostname')", "added", "raw/short/0/more"),
    "adds a pipe": ("import os; os.mkfifo(trials[0].path.parents[2] / 'pipe')", "added", "pipe"),
    "adds code": ("(trials[0].path.parents[2] / 'experiment/x.py').touch()", "added", "experiment/x.py"),
}


def editing(folder: Path, edit: str, hook: str = "tables(trials)") -> str:
    """The analysis of `folder` with an edit at the beginning of a hook."""
    text = ANALYSIS.replace(f"def {hook}:\n", f"def {hook}:\n    {edit}\n")
    assert text != ANALYSIS
    return text


@pytest.mark.deep
@pytest.mark.parametrize(("edit", "what", "name"), EDITS.values(), ids=EDITS)
def test_an_analysis_cannot_edit_what_it_reads(made, results, tmp_path, edit, what, name):
    """At e4efdb2 it could."""
    other = experiment_folder(tmp_path / "other", VIRTUAL, editing(made.path, edit))
    with pytest.raises(RunError, match=r"tables\(\) failed: .*(Read-only file system|Permission denied|not permitted)"):
        reanalyse(results, str(made.path), other, CONSOLE, verbose=False)
    verify_files(made.path)
    assert set_paths(results) == [made.path]


@pytest.mark.deep
@pytest.mark.parametrize(("edit", "what", "name"), EDITS.values(), ids=EDITS)
def test_no_set_is_written_with_raw_files_that_the_analysis_edited(folder, results, unboxed, edit, what, name):
    """At e4efdb2 it was, sealed with the edited files."""
    edit = f"trials = [t for t in trials if (t.arm, t.repetition) == ('short', 0)]; {edit}"
    (folder / "analysis.py").write_text(editing(folder, f"if len(trials) > 2: {edit}"))
    parts = [write_part(results, folder, repetitions=f"{number}:{number + 1}/2") for number in range(2)]
    before = set_paths(results)
    with pytest.raises(RunError) as caught:
        merge(results, [str(one.path) for one in parts], CONSOLE, verbose=False)
    says = f"{name}: the analysis has {what} this file, which it may only read"
    if what == "changed":  # the bytes are the old set's too: that is told
        says += " (and so in the set that it is linked from: ./inv verify tells)"
        with pytest.raises(RunError, match=f"{name}: differs from what was written"):
            verify_files(parts[0].path)
    assert str(caught.value) == says
    assert set_paths(results) == before


@pytest.mark.parametrize("hook", ["metrics(tables)", "figures(tables)", "summary(tables)"])
@pytest.mark.deep
def test_every_hook_is_looked_after(made, results, tmp_path, unboxed, hook):
    edit = "import pathlib; [f.write_text('1') for f in pathlib.Path(ROOT).glob('*/.krepro*/raw/short/0/wait')]"
    text = editing(made.path, edit.replace("ROOT", repr(str(results))), hook)
    other = experiment_folder(tmp_path / "other", VIRTUAL, text)
    with pytest.raises(RunError, match=r"/raw/short/0/wait: differs from what was written"):
        reanalyse(results, str(made.path), other, CONSOLE, verbose=False)


@pytest.mark.deep
def test_verify_and_figures_notice_what_their_analysis_does_to_a_finished_set(folder, results, unboxed):
    edit = f"import pathlib; ({RAW} / 'wait').write_text('1') if 'results' in __file__ else None"
    for hook in ("metrics(tables)", "figures(tables)"):
        (folder / "analysis.py").write_text(editing(folder, edit, hook))
        made = write_set(results, folder, {"short": [100.0]})
        with pytest.raises(RunError, match="raw/short/0/wait: differs from what was written"), unchanged(made.path):
            execute(made, lambda made=made: verify(results, str(made.path), CONSOLE), trust=False)
    with pytest.raises(RunError, match="raw/short/0/wait: differs from what was written"):
        commands(write_set(results, folder, {"short": [100.0]}).path, folder / "out")["figures"]()


def test_a_file_that_is_only_looked_at_is_not_hashed_again(made, monkeypatch):
    monkeypatch.setattr("harness.sets.seal.verify_files", lambda path: pytest.fail("nothing has changed"))
    with unchanged(made.path), Contained(made.path / EXPERIMENT, made.path) as analysis:
        analysis.redraw(made.path, "svg", made.path.parent / "drawn")
    monkeypatch.undo()

    def edit() -> None:
        place = made.path / "raw/short/0/wait"
        before = place.stat()
        place.write_bytes(place.read_bytes()[::-1])
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))

    with pytest.raises(RunError, match="raw/short/0/wait: differs"), unchanged(made.path):
        edit()


# -- manifests that name what is not there ----------------------------------------------------------------------


def trial(**given: Any) -> Callable[[dict[str, Any]], None]:
    return lambda values: values["trials"][0].update(given)


MISSING: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "kernel": (lambda values: values["kernels"].clear(), "field images: there is none|field kernels: there is none"),
    "image": (lambda values: values["images"].clear(), "field images: there is none of 'classic'"),
    "another image": (lambda v: v["images"].update(b=v["images"].pop("classic")), "there is none of "),
    "both": (lambda v: [v[name].clear() for name in ("kernels", "images")], "there is no kernel 'classic'"),
    "kernel of a trial": (trial(kernel="other"), "arm short has kernel classic, got 'other'"),
    "arm": (trial(arm="other"), "there is no arm 'other'"),
    "host": (trial(host=3), "there is no host 3"),
    "negative host": (trial(host=-1), "there is no host -1"),
    "trial twice": (lambda v: v["trials"].append(v["trials"][0]), "short 0 is there twice"),
    "architecture": (
        lambda v: v["kernels"]["classic"].update(arch="vax"),
        "field kernels.classic.arch: must be one of",
    ),
    "archive": (lambda v: v["kernels"]["classic"].update(source={"archive": "x"}), "archive: must give sha256"),
    "trials of another": (lambda v: v["experiment"]["arms"].pop("short"), "names no arm"),
}


@pytest.mark.parametrize(("change", "says"), MISSING.values(), ids=MISSING)
def test_a_manifest_names_nothing_that_is_not_there(made, tmp_path, change, says):
    """At e4efdb2 `reference`, `compare`, `merge`, `replay` and `capsule` ended in a KeyError at the first of these."""
    everywhere_refused(forged(made, change), tmp_path, says)


def everywhere_refused(path: Path, tmp_path: Path, says: str) -> None:
    (tmp_path / "out").mkdir(exist_ok=True)
    for name, action in commands(path, tmp_path / "out").items():
        with pytest.raises(KreproError, match=says) as caught:
            action()
        refused(caught.value)
        assert not list((tmp_path / "out").iterdir()), name


# -- files that are no files of a set ---------------------------------------------------------------------------


def put(place: str, make: Callable[[Path], object]) -> Callable[[Path, Path], object]:
    def do(root: Path, secret: Path) -> object:
        (root / place).unlink(missing_ok=True)
        return make(root / place)

    return do


def linked(place: str) -> Callable[[Path, Path], object]:
    def do(root: Path, secret: Path) -> object:
        (root / place).unlink(missing_ok=True)
        return (root / place).symlink_to(secret)

    return do


def folder_linked(root: Path, secret: Path) -> None:
    (root / "raw/short").rename(root.parent.parent / "moved")
    (root / "raw/short").symlink_to(root.parent.parent / "moved")


def listening(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


def device(path: Path) -> None:
    os.mknod(path, 0o666 | 0o020000, os.makedev(1, 5))  # /dev/zero


NO_FILES = {
    "link for a raw file": linked("raw/short/0/wait"),
    "link for metrics": linked("metrics.parquet"),
    "link for code": linked("experiment/analysis.py"),
    "link for claims": linked("claims.json"),
    "link for a figure": linked("figures/waits.svg"),
    "link that leads nowhere": put("raw/short/0/gone", lambda path: path.symlink_to("gone")),
    "link to a folder": folder_linked,
    "pipe": put("raw/short/0/wait", os.mkfifo),
    "pipe for shown tables": put("shown.json", os.mkfifo),
    "socket": put("raw/short/0/sock", listening),
    "device": put("raw/short/0/wait", device),
    "more than the manifest has": put("tables/more.parquet", Path.touch),
    "more code": put("experiment/more.py", Path.touch),
}


@pytest.mark.parametrize("change", NO_FILES.values(), ids=NO_FILES)
def test_what_is_no_file_of_the_set_is_refused_by_all(made, tmp_path, change):
    secret = tmp_path / "secret"
    secret.write_text("the reader's own")
    if change is NO_FILES["device"] and os.geteuid() != 0:
        pytest.skip("only root makes devices")
    change(made.path, secret)
    everywhere_refused(made.path, tmp_path, "is neither a plain file nor a folder|is not of this set|no plain file")
    assert secret.read_text() == "the reader's own"


def test_a_manifest_that_is_a_link_or_no_file_is_refused_by_all(made, tmp_path):
    there = made.path / MANIFEST
    there.rename(tmp_path / "manifest")
    there.symlink_to(tmp_path / "manifest")
    everywhere_refused(made.path, tmp_path, "is no result set|is a link")
    there.unlink()
    os.mkfifo(there)
    everywhere_refused(made.path, tmp_path, "no plain file|no result set")


@pytest.mark.deep
def test_a_hard_link_to_a_file_outside_is_only_read(made, tmp_path):
    """It is a plain file with bytes of the reader's own; nothing writes to it, whatever is done with the set."""
    outside = tmp_path / "outside"
    outside.write_text("100.0")
    outside.chmod(0o640)
    (made.path / "raw/short/0/wait").unlink()
    (made.path / "raw/short/0/wait").hardlink_to(outside)
    path = resealed(made)
    before = outside.stat()
    (tmp_path / "out").mkdir()
    for action in commands(path, tmp_path / "out").values():
        try:
            action()
        except KreproError as error:
            refused(error)
    assert outside.read_text() == "100.0"
    assert (outside.stat().st_mode, outside.stat().st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


def test_a_file_that_becomes_a_link_after_the_set_was_opened_is_not_followed(made, tmp_path):
    """By whatever reads hashes; who can write below a set while it is read is not kept out (docs/security.md)."""
    opened = ResultSet(made.path)
    raw = made.path / "raw/short/0/wait"
    raw.rename(tmp_path / "same bytes")
    raw.symlink_to(tmp_path / "same bytes")
    with pytest.raises(RunError, match="raw/short/0/wait: differs from what was written: no plain file"):
        verify_files(opened.path)
    made.path.joinpath(EXPERIMENT, "analysis.py").rename(tmp_path / "analysis.py")
    made.path.joinpath(EXPERIMENT, "analysis.py").symlink_to(tmp_path / "analysis.py")
    assert not is_known(made.path, "waits")


LONG = "x" * 300
PATHS = {
    "above": "../../secret",
    "above, in the middle": "raw/../../secret",
    "here": "raw/./x",
    "absolute": "/etc/hostname",
    "NUL": "raw/a\0b",
    "empty part": "raw//x",
    "long": f"raw/{LONG}",
    "very long": "/".join(["raw", *["y" * 200] * 40]),
}


@pytest.mark.parametrize("name", PATHS.values(), ids=PATHS)
def test_names_of_files_that_lead_elsewhere_or_nowhere_are_refused_by_all(made, tmp_path, name):
    path = forged(made, lambda values: values["files"].update({name: "0" * 64}))
    (tmp_path / "out").mkdir()
    for what, action in commands(path, tmp_path / "out").items():
        if (
            name.startswith("/") or not {"", ".", ".."}.isdisjoint(name.split("/")) or "\0" in name
        ) or what in READS_ALL:
            with pytest.raises(KreproError) as caught:
                action()
            refused(caught.value)


#: Commands that look at every file that the manifest has.
READS_ALL = ("verify", "analyse", "export ro-crate", "export zip", "sign", "merge")


def test_a_plan_of_a_size_that_nobody_runs_is_refused(made):
    whole = {"id": "x", "repetitions": {"short": 10**15}, "trials": 10**15, "part": "", "measuring": ""}
    path = forged(made, lambda values: values.update(plan=whole))
    copy = path.parent.parent / "copy" / path.name
    shutil.copytree(path, copy)
    with pytest.raises(UsageError, match="no run has these"):
        merge(path.parent.parent, [str(path), str(copy)], CONSOLE, verbose=False)


# -- capsules ---------------------------------------------------------------------------------------------------


def packed(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    """A tar.zst of these members as they are."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for member, data in members:
            tar.addfile(member, io.BytesIO(data))
    path.write_bytes(pyarrow.Codec("zstd").compress(made.getvalue(), asbytes=True))
    return path


def member(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size, made.type, made.linkname = size, kind, link
    return made


EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
LISTED = f"{EMPTY}  x\n".encode()
SUMS = (member("f/SHA256SUMS", len(LISTED)), LISTED)
ABOVE = (member("f/SHA256SUMS", len(LISTED) + 3), LISTED.replace(b"  x", b"  ../x"))
GAMES: dict[str, tuple[tuple[tarfile.TarInfo, bytes], ...]] = {
    "link": (SUMS, (member("f/x", kind=tarfile.SYMTYPE, link="/etc/passwd"), b"")),
    "hard link": (SUMS, (member("f/x", kind=tarfile.LNKTYPE, link="/etc/passwd"), b"")),
    "device": (SUMS, (member("f/x", kind=tarfile.CHRTYPE), b"")),
    "pipe": (SUMS, (member("f/x", kind=tarfile.FIFOTYPE), b"")),
    "above": (SUMS, (member("f/../x"), b"")),
    "absolute": (SUMS, (member("/x"), b"")),
    "another folder": (SUMS, (member("g/x"), b"")),
    "above, and listed": (ABOVE, (member("f/../x"), b"")),
    "twice": (SUMS, (member("f/x"), b""), (member("f/x"), b"")),
    "not listed": (SUMS, (member("f/x"), b""), (member("f/y"), b"")),
    "missing": (SUMS,),
    "no list": ((member("f/x"), b""),),
    "list that is a link": ((member("f/SHA256SUMS", kind=tarfile.SYMTYPE, link="x"), b""),),
    "nothing": (),
}


@pytest.mark.parametrize("members", GAMES.values(), ids=GAMES)
def test_a_capsule_with_anything_but_its_files_is_refused(tmp_path, members):
    path = packed(tmp_path / "x.tar.zst", *members)
    before = hash_tree(tmp_path)
    with pytest.raises(KreproError) as caught:
        verify_capsule(path, CONSOLE)
    refused(caught.value)
    assert hash_tree(tmp_path) == before, "nothing is unpacked"


@pytest.mark.parametrize("size", [1 << 33, 1 << 62])
@pytest.mark.parametrize("name", ["f/SHA256SUMS", "f/x"])
def test_a_capsule_that_declares_more_than_it_has_is_refused(tmp_path, name, size):
    large = member(name)
    large.size = size
    header = large.tobuf(tarfile.GNU_FORMAT)
    first = b"" if name.endswith("SUMS") else SUMS[0].tobuf() + LISTED + bytes(-len(LISTED) % 512)
    path = tmp_path / "x.tar.zst"
    path.write_bytes(pyarrow.Codec("zstd").compress(first + header + bytes(1024), asbytes=True))
    with pytest.raises(KreproError) as caught:
        verify_capsule(path, CONSOLE)
    refused(caught.value)


def test_a_good_capsule_is_one(tmp_path):
    (tmp_path / "x").touch()
    archive.write(tmp_path / "x.tar.zst", "f", [archive.Member("x", tmp_path / "x")], 0, tmp_path / "sums")
    assert hash_file(tmp_path / "x") == EMPTY
    assert verify_capsule(tmp_path / "x.tar.zst", CONSOLE) == 0
    assert verify_capsule(packed(tmp_path / "y.tar.zst", SUMS, (member("f/x"), b"")), CONSOLE) == 0


def test_a_capsule_is_not_signed(tmp_path):
    """At e4efdb2 it ended with 0, whoever was asked for."""
    path = packed(tmp_path / "x.tar.zst", SUMS, (member("f/x"), b""))
    assert verify_command(str(path)) == 0
    with pytest.raises(UsageError, match="a capsule is not signed"):
        verify_command(str(path), signers=tmp_path / "signers")
