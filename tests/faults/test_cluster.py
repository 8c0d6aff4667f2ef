# SPDX-License-Identifier: MIT
"""Runs on a Dask cluster whose workers are killed, slow, damaged or others: the set is that of one machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from harness.artefacts.store import Store
from harness.errors import EXIT_RUN_FAILED, EXIT_USAGE
from harness.paths import ROOT
from harness.sets.resultset import ResultSet
from harness.sets.seal import verify_files
from tests.clusters import Cluster, dask_python
from tests.folders import HELLO, experiment
from tests.networks import Network
from tests.networks import unusable as unconnected
from tests.processes import DEFAULT_SIGNALS, eventually, machines
from tests.slurm import Slurm, unusable

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800), pytest.mark.xdist_group("cluster")]

WALL = "  clocked: {kernel: classic, clock: wall, params: {offset: 3}}\nrepetitions"
REPETITIONS = 15

#: A client whose connection is closed so often while it sends content.
CLOSED = """
from distributed import Client
from distributed.comm import CommClosedError
sent, calls = Client.scatter, []
def scatter(self, *arguments, **options):
    calls.append(arguments)
    if len(calls) <= {times}:
        raise CommClosedError("Stream is closed")
    return sent(self, *arguments, **options)
Client.scatter = scatter
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    return dask_python(tmp_path_factory.mktemp("python") / "venv")


@pytest.fixture
def cluster(tmp_path: Path, python: str) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", python) as made:
        yield made
    assert eventually(lambda: not machines(tmp_path), 30), "no guest outlives its worker"


@pytest.fixture
def network() -> Iterator[Network]:
    reason = unconnected()
    if reason is not None:
        pytest.skip(reason)
    with Network() as made:
        yield made


@pytest.fixture
def machines_apart(tmp_path: Path, python: str, network: Network) -> Iterator[Cluster]:
    """A cluster of machines with neither a folder nor an address in common but the scheduler's."""
    with Cluster(tmp_path / "cluster", python, network) as made:
        yield made
    assert eventually(lambda: not machines(tmp_path), 30), "no guest outlives its worker"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return experiment(tmp_path / "hello", HELLO)


@pytest.fixture
def start(tmp_path: Path, folder: Path, python: str) -> Callable[..., subprocess.Popen[str]]:
    def begin(
        *words: str, results: str = "results", environment: Mapping[str, str] = {}, before: tuple[str, ...] = ()
    ) -> subprocess.Popen[str]:
        command = [python, "-m", "harness.commands.program", "run", str(folder), "--results", str(tmp_path / results)]
        (tmp_path / "tmp").mkdir(exist_ok=True)
        return subprocess.Popen(
            [*DEFAULT_SIGNALS, *before, *command, *words],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp"), **environment},
        )  # fmt: skip

    return begin


@pytest.fixture
def batch() -> Iterator[Slurm]:
    reason = unusable()
    if reason is not None:
        pytest.skip(reason)
    with Slurm(cpus=4) as made:
        yield made


def configured(tmp_path: Path, batch: Slurm, **keys: object) -> dict[str, str]:
    """The environment of a command whose jobs are those of the page but for the keys; each has a store of its own."""
    jobs = tmp_path / "jobs"
    jobs.mkdir(exist_ok=True)
    place = f"{jobs}/$SLURM_JOB_ID"
    page = (ROOT / "docs/scale.md").read_text().partition("## Jobs of Slurm")[2]
    slurm = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])["jobqueue"]["slurm"] | {
        "jobs": 2, "cores": 1, "memory": "200 MiB", "log-directory": str(jobs), "shared-temp-directory": str(jobs),
        "job-script-prologue": [f"mkdir {place}", f"export TMPDIR={place} KREPRO_STORE={place}/store"],
        "scheduler-options": {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}, **keys,
    }  # fmt: skip
    del slurm["job-extra-directives"]
    file = tmp_path / "jobqueue.yaml"
    lost = {"deploy": {"lost-worker-timeout": "1s"}}
    file.write_text(json.dumps({"jobqueue": {"slurm": slurm}, "distributed": lost}))
    return {**batch.environment, "DASK_CONFIG": str(file)}


def third_time_refused(folder: Path) -> Path:
    """A folder with an sbatch that refuses the third job, as a controller does that begins anew."""
    folder.mkdir()
    calls = folder / "calls"
    script = folder / "sbatch"
    script.write_text(
        f"""#!/bin/sh
echo >>{calls}
[ "$(wc -l <{calls})" != 3 ] && exec {shutil.which("sbatch")} "$@"
echo "sbatch: error: not now" >&2
exit 1
"""
    )
    script.chmod(0o755)
    return folder


def ended(process: subprocess.Popen[str], code: int = 0) -> tuple[ResultSet | None, str]:
    out, err = process.communicate(timeout=1800)
    assert process.returncode == code, err
    lines = out.strip().splitlines()
    return (ResultSet(Path(lines[-1])) if lines and Path(lines[-1]).is_dir() else None), err


def sealed(tmp_path: Path) -> int:
    return len(list(tmp_path.glob("results/hello/.unfinished/*/trials/*/*.json")))


def runs_on(cluster: Cluster) -> list[str]:
    return [name for name in cluster.workers if machines(cluster.root / name)]


def held(cluster: Cluster) -> list[str]:
    """Workers that run a guest; from now on their guests stand still, so that none ends by itself."""
    for pid in machines(cluster.root):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    return runs_on(cluster)


def test_machines_apart_share_neither_folders_nor_addresses(tmp_path, network):
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "others").touch()
    look = f"ls {tmp_path} {own}; ls -A {Store.default().root}; cat /proc/net/fib_trie; echo seen >{own}/written"
    before, address = network.machine(own, (tmp_path, Store.default().root))
    done = subprocess.run([*before, "sh", "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.partition("Main:")[0].split() == [f"{tmp_path}:", "own", f"{own}:"]
    assert set(re.findall(r"-- (\S+)\n\s+/32 host LOCAL", done.stdout)) == {"127.0.0.1", address}
    assert (own / "written").read_text() == "seen\n"
    assert list(own.iterdir()) == [own / "written"]


def test_ten_workers_two_killed_one_slow_one_damaged_are_one_machine(tmp_path, network, machines_apart, start):
    cluster = machines_apart
    alone, _ = ended(start("--repetitions", str(REPETITIONS), results="alone"))
    store = cluster.add("damaged")
    ended(start("--repetitions", "1", "--executor", cluster.address, results="first", before=network.first))
    contents = sorted(store.glob("content/*/file"))
    assert len(contents) >= 3
    for path in contents:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    cluster.add("slow")
    for number in range(8):
        cluster.add(f"worker-{number}")
    process = start("--repetitions", str(REPETITIONS), "--executor", cluster.address, before=network.first)
    struck: set[str] = set()

    def all_struck() -> bool:
        """The slow one stands still in its first trial, and the two that were seen in one first are killed."""
        for name in set(runs_on(cluster)) - struck:
            if name == "slow" or (name.startswith("worker") and len(struck - {"slow"}) < 2):
                cluster.workers[name].send_signal(signal.SIGSTOP if name == "slow" else signal.SIGKILL)
                struck.add(name)
        return len(struck) == 3

    assert eventually(all_struck, 300)
    assert not eventually(lambda: process.poll() is not None, 8), "it waits for the slow one"
    cluster.workers["slow"].send_signal(signal.SIGCONT)
    result, err = ended(process)
    assert result is not None
    assert alone is not None
    verify_files(result.path)
    assert result.manifest.digest == alone.manifest.digest
    assert result.manifest.deterministic == alone.manifest.deterministic
    assert (result.path / "metrics.parquet").read_bytes() == (alone.path / "metrics.parquet").read_bytes()
    assert [claim.verdict for claim in result.claims] == ["reproduced"]
    assert {trial.status for trial in result.manifest.trials} == {"ok"}
    assert [trial.host for trial in alone.manifest.trials] == [None] * 2 * REPETITIONS
    assert {trial.host for trial in result.manifest.trials} == {0}, "workers of one machine are one host"
    assert len(result.manifest.hosts) == 1
    assert "Dask's dashboard: http://" in err
    told = (result.path / "manifest.json").read_text()
    assert str(tmp_path) not in told
    assert "damaged" in cluster.log("damaged"), "its contents were sent again"


def test_a_trial_whose_workers_are_lost_is_run_three_times_more(cluster, start):
    for number in range(5):
        cluster.add(f"worker-{number}")
    process = start("--arms", "one", "--repetitions", "1", "--executor", cluster.address)
    for _ in range(4):
        assert eventually(lambda: held(cluster) or process.poll() is not None, 120)
        assert process.poll() is None, process.communicate()[1]
        (victim,) = runs_on(cluster)
        cluster.workers[victim].kill()
        cluster.workers[victim].wait()
        assert eventually(lambda name=victim: name not in runs_on(cluster), 10)
    _, err = ended(process, EXIT_RUN_FAILED)
    assert "one 0: " in err
    assert "lost" in err
    assert "; it was begun 4 times" in err


@pytest.mark.parametrize("times", [2, 10_000])
def test_content_whose_worker_dies_while_it_comes_is_sent_again(tmp_path, cluster, start, times):
    """The scheduler closes the client's connection then, which is hit too seldom by killing workers."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed/sitecustomize.py").write_text(CLOSED.format(times=times))
    environment = {"PYTHONPATH": f"{tmp_path}/closed:{ROOT}"}
    cluster.add("worker")
    words = ("--repetitions", "1", "--executor", cluster.address)
    result, err = ended(start(*words, environment=environment), 0 if times == 2 else EXIT_RUN_FAILED)
    if times == 2:
        assert result is not None
        assert {trial.status for trial in result.manifest.trials} == {"ok"}
    else:
        assert "what it needs was lost on its way; it was begun" in err
    assert "a bug of krepro" not in err


def test_ctrl_c_ends_the_guests_and_the_same_words_go_on(tmp_path, cluster, start):
    for number in range(2):
        cluster.add(f"worker-{number}")
    process = start("--executor", cluster.address)
    assert eventually(lambda: sealed(tmp_path) >= 2 and runs_on(cluster), 300)
    for pid in machines(cluster.root):
        os.kill(pid, signal.SIGSTOP)  # so that none ends by itself
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    kept = sealed(tmp_path)
    assert f"{kept} of 12 trials are kept" in err
    assert eventually(lambda: not runs_on(cluster), 5)
    result, err = ended(start("--executor", cluster.address))
    assert result is not None
    assert f"{kept} of 12 trials are done" in err
    alone, _ = ended(start(results="alone"))
    assert alone is not None
    assert result.manifest.digest == alone.manifest.digest
    assert len(result.manifest.hosts) == 1


def test_a_worker_with_another_qemu_gets_nothing(tmp_path, cluster, start):
    fake = tmp_path / "fake/qemu-system-x86_64"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho QEMU emulator version 99\n")
    fake.chmod(0o755)
    cluster.add("other", environment={"PATH": f"{fake.parent}:{os.environ['PATH']}", "KREPRO_HOST_TOOLS": "1"})
    _, err = ended(start("--repetitions", "1", "--executor", cluster.address), EXIT_RUN_FAILED)
    assert "no worker can run trials" in err
    assert "QEMU emulator version 99 there" in err
    cluster.add("good")
    result, err = ended(start("--repetitions", "1", "--executor", cluster.address))
    assert result is not None
    assert {trial.status for trial in result.manifest.trials} == {"ok"}


def test_the_wall_clock_takes_a_machine_of_its_own(tmp_path, folder, cluster, start):
    experiment = folder / "experiment.yaml"
    experiment.write_text(experiment.read_text().replace("repetitions", WALL, 1))
    cluster.add("core")
    words = ("--arms", "clocked", "--repetitions", "2", "--executor", cluster.address)
    _, err = ended(start(*words), EXIT_USAGE)
    assert "no worker has the resource machine (start one worker per machine, with --resources machine=1; " in err
    cluster.add("machine", "--resources", "machine=1")
    process = start(*words)
    most = 0
    while process.poll() is None:
        assert "core" not in runs_on(cluster)
        most = max(most, len(machines(cluster.root / "machine")))
        eventually(lambda: False, 0.2)
    assert most == 1
    _, err = ended(process, EXIT_RUN_FAILED)
    assert "no claim of the paper could be measured" in err
    result = ResultSet((tmp_path / "results/hello/latest").resolve())
    assert [trial.status for trial in result.manifest.trials] == ["ok", "ok"]


def test_an_address_without_a_scheduler_is_one_line(start):
    _, err = ended(start("--executor", "dask://127.0.0.1:1"), EXIT_USAGE)
    assert err.strip().splitlines()[-1].startswith("krepro: --executor dask://127.0.0.1:1: ")
    assert "Traceback" not in err
    _, err = ended(start("--executor", "nowhere"), EXIT_USAGE)
    assert "--executor nowhere: must be dask://HOST:PORT, tls://HOST:PORT or slurm" in err


def test_jobs_of_slurm_one_of_them_cancelled_are_one_machine(tmp_path, batch, start):
    words = ("--repetitions", str(2 * REPETITIONS))
    alone, _ = ended(start(*words, results="alone"))
    environment = configured(tmp_path, batch) | {"PATH": f"{third_time_refused(tmp_path / 'bin')}:{os.environ['PATH']}"}
    process = start(*words, "--executor", "slurm", environment=environment)
    jobs = tmp_path / "jobs"
    assert eventually(lambda: process.poll() is not None or len(batch.jobs("RUNNING")) == 2, 120)
    victim = batch.jobs("RUNNING")[0]
    assert eventually(lambda: process.poll() is not None or machines(jobs / victim), 300)
    batch.ask("scancel", victim)
    assert eventually(lambda: process.poll() is not None or victim not in batch.jobs("RUNNING"), 60)
    assert eventually(lambda: process.poll() is not None or len(batch.jobs("RUNNING")) == 2, 120)
    assert process.poll() is None, process.communicate()[1]
    result, err = ended(process)
    assert result is not None
    assert alone is not None
    verify_files(result.path)
    assert result.manifest.digest == alone.manifest.digest
    assert (result.path / "metrics.parquet").read_bytes() == (alone.path / "metrics.parquet").read_bytes()
    assert {trial.status for trial in result.manifest.trials} == {"ok"}
    assert {trial.host for trial in result.manifest.trials} == {0}
    assert "2 jobs are submitted to Slurm" in err
    assert "Slurm takes no job, it will be asked again: sbatch: error: not now" in err
    assert "Traceback" not in err
    assert "distributed." not in err, "no lines of Dask's own"
    assert eventually(lambda: not batch.ask("squeue", "--noheader"), 30), "the jobs end with the run"
    assert len(list(jobs.glob("*/store/content"))) == 3, "each job took the contents into a store of its own"
    assert not list(jobs.glob(".dask-jobqueue*")), "no keys are left"
    assert not machines(jobs)


def test_the_wall_clock_takes_jobs_with_a_machine_of_their_own(tmp_path, folder, batch, start):
    experiment = folder / "experiment.yaml"
    experiment.write_text(experiment.read_text().replace("repetitions", WALL, 1))
    words = ("--arms", "clocked", "--repetitions", "2", "--executor", "slurm")
    _, err = ended(start(*words, environment=configured(tmp_path, batch)), EXIT_USAGE)
    assert "no worker has the resource machine" in err
    assert "under Slurm, with --exclusive" in err
    alone = configured(tmp_path, batch, job_extra_directives=["--exclusive"])
    process = start(*words, environment=alone)
    most = 0
    while process.poll() is None:
        most = max(most, len(machines(tmp_path / "jobs")))
        assert len(batch.jobs("RUNNING")) <= 1
        eventually(lambda: False, 0.2)
    assert most == 1
    ended(process, EXIT_RUN_FAILED)
    result = ResultSet((tmp_path / "results/hello/latest").resolve())
    assert [trial.status for trial in result.manifest.trials] == ["ok", "ok"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_jobs_end_with_the_command(tmp_path, batch, start, number):
    process = start("--executor", "slurm", environment=configured(tmp_path, batch))
    assert eventually(lambda: sealed(tmp_path) and machines(tmp_path / "jobs"), 300)
    process.send_signal(number)
    _, err = process.communicate(timeout=10)
    if number == signal.SIGINT:
        assert process.returncode == 130, err
        assert "trials are kept" in err
        assert eventually(lambda: not machines(tmp_path / "jobs"), 5)
    assert eventually(lambda: not batch.ask("squeue", "--noheader"), 60)
    assert eventually(lambda: not batch.workers(), 30)
    assert not machines(tmp_path / "jobs")


def test_what_slurm_lacks_or_refuses_is_one_line(tmp_path, batch, start):
    cases = [
        ({"jobs": None, "memory": None}, "jobqueue.slurm lacks jobs, memory"),
        ({"memory": "much"}, "Could not interpret 'much'"),
        ({"queue": "nowhere"}, "invalid partition name specified"),
    ]
    for keys, reason in cases:
        _, err = ended(start("--executor", "slurm", environment=configured(tmp_path, batch, **keys)), EXIT_USAGE)
        (line,) = err.strip().splitlines()
        assert line.startswith("krepro: --executor slurm: ")
        assert reason.lower() in line.lower()
        assert "~/.config/dask/jobqueue.yaml" in line


@pytest.mark.parametrize("arm", ["one", "clocked"])
def test_a_run_ends_when_all_jobs_end_before_they_are_workers(tmp_path, folder, batch, start, arm):
    experiment = folder / "experiment.yaml"
    experiment.write_text(experiment.read_text().replace("repetitions", WALL, 1))
    environment = configured(tmp_path, batch, **{"job-script-prologue": ["exit 1"]})
    _, err = ended(start("--arms", arm, "--executor", "slurm", environment=environment), EXIT_RUN_FAILED)
    lines = err.strip().splitlines()
    assert [sum(f"job {number} has ended before it was a worker" in line for line in lines) for number in (1, 2)] == [
        1,
        1,
    ]
    assert lines[-1].startswith("krepro: no job is left: all of them (1, 2) ended before they were workers")
    assert "Traceback" not in err


def test_a_run_goes_on_with_the_jobs_that_are_left(tmp_path, batch, start):
    usual = f"{tmp_path}/jobs/$SLURM_JOB_ID"
    prologue = [
        '[ "$SLURM_JOB_ID" != 1 ] || exit 1',
        f"mkdir {usual}",
        f"export TMPDIR={usual} KREPRO_STORE={usual}/store",
    ]
    environment = configured(tmp_path, batch, **{"job-script-prologue": prologue})
    result, err = ended(start("--repetitions", "30", "--executor", "slurm", environment=environment))
    assert result is not None
    assert {trial.status for trial in result.manifest.trials} == {"ok"}
    assert "no job is left" not in err


def test_a_history_on_workers_is_that_of_one_machine(cluster: Cluster, tmp_path: Path, python: str) -> None:
    for name in ("one", "two"):
        cluster.add(name)

    def history(out: str, *words: str) -> tuple[Path, str]:
        command = [python, "-m", "harness.commands.program", "history", "debian:6.1.0-47,debian:6.1.0-50", *words]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [*command, "--out", str(tmp_path / out), "--", "true"],
            cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return tmp_path / out, done.stderr

    here, alone = history("here")
    there, told = history("there", "--executor", cluster.address)
    assert "2 workers; Dask's dashboard" in told
    assert "Dask" not in alone
    for file in ("kernels.csv", "syscalls.csv", "steps.csv"):
        assert (there / file).read_bytes() == (here / file).read_bytes()
