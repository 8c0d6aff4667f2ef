# SPDX-License-Identifier: MIT
"""Workers that are jobs of Slurm, with a scheduler of the run's own; dask-jobqueue submits and cancels them.

Dask's configuration says all about them under `jobqueue.slurm`. The keys are dask-jobqueue's, and one is ours: `jobs`.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from harness.errors import RunError, UsageError
from harness.paths import ROOT
from harness.progress import note, warn

HINT = "set it in ~/.config/dask/jobqueue.yaml, see docs/scale.md"
#: What gives a job a machine of its own.
ALONE = "--exclusive"
#: Dask pauses a worker that takes most of `memory`, and a paused one would never run a trial again: what a trial takes
#: is QEMU's, which Dask neither counts nor frees. Slurm holds the job to its memory.
UNPAUSED = ("--memory-limit", "0")
#: How often it is looked whether jobs have ended: their time was over, or somebody cancelled them.
LOOK_MS = 15_000


def load() -> None:
    """Import dask-jobqueue. It takes SIGINT for itself then, and Ctrl-C would read as success: it is given back."""
    handler = signal.getsignal(signal.SIGINT)
    import dask_jobqueue  # noqa: F401

    signal.signal(signal.SIGINT, handler)


@contextmanager
def jobs(machine: str) -> Iterator[Any]:
    """A Dask cluster, for whose workers Slurm was asked. `machine`: the resource of a worker with its own machine.

    UsageError when the configuration lacks something, or when Slurm refuses.
    """
    from dask import config
    from dask_jobqueue import SLURMCluster
    from tornado.ioloop import PeriodicCallback

    if shutil.which("sbatch") is None:
        raise UsageError("--executor slurm: no sbatch in PATH", hint="run this where jobs are submitted")
    told = partial(_told, config)
    count = _checked(told)
    directives = list(told("job-extra-directives") or ())
    extra = list(told("worker-extra-args") or ())
    try:
        cluster = SLURMCluster(
            processes=1,
            nanny=False,
            security=True,
            shared_temp_directory=told("shared-temp-directory") or str(Path.home()),
            worker_extra_args=[*UNPAUSED, *extra, *(("--resources", f"{machine}=1") if ALONE in directives else ())],
            job_extra_directives=[
                f"--chdir={shlex.quote(str(ROOT))}",
                *(() if told("log-directory") else ("--output=/dev/null",)),
                *directives,
            ],
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise _refused(error) from error
    try:
        try:
            cluster.sync(_submit, cluster, count)
        except (OSError, RuntimeError) as error:
            raise _refused(error) from error
        note(f"{count} jobs are submitted to Slurm")
        cluster.failed = set()
        cluster.loop.add_callback(PeriodicCallback(partial(_look, cluster, set()), LOOK_MS).start)
        yield cluster
    finally:
        with suppress(Exception):
            cluster.close(timeout=5)


def check_left(cluster: Any) -> None:
    """RunError when all of its jobs have ended before they were workers: nobody would come any more.

    Of a cluster that `jobs` did not make, nothing is known.
    """
    failed: set[str] = getattr(cluster, "failed", set())
    if failed and failed >= {job.job_id for job in list(cluster.workers.values())}:
        raise RunError(
            f"no job is left: all of them ({', '.join(sorted(failed, key=int))}) ended before they were workers",
            hint="their logs are in `log-directory`, if that is set",
        )


def _told(config: Any, key: str) -> Any:
    """A value of the configuration. Dask takes each key with `-` or `_`, where it is asked for one by one."""
    return config.get(f"jobqueue.slurm.{key}", None)


def _checked(told: Callable[[str], Any]) -> int:
    wrong = [key for key in ("jobs", "cores") if not isinstance(told(key), int) or told(key) < 1]
    wrong += [] if told("memory") else ["memory"]
    if wrong:
        raise UsageError(f"--executor slurm: jobqueue.slurm lacks {', '.join(wrong)}", hint=HINT)
    count: int = told("jobs")
    return count


async def _submit(cluster: Any, count: int) -> None:
    for _ in range(count):
        cluster.worker_spec.update(cluster.new_worker_spec())
    await cluster


async def _look(cluster: Any, known: set[str]) -> None:
    """Submit anew the jobs whose workers were lost. `known`: jobs that have been workers, or are told to have failed.

    A job that ends before it is a worker is only told: the next one would end as it did.
    """
    if cluster.status.name != "running":
        return
    try:
        await cluster
    except (OSError, RuntimeError) as error:
        warn(f"Slurm takes no job, it will be asked again: {_last_line(error)}")
        for name in [name for name, job in cluster.workers.items() if job.job_id is None]:
            del cluster.workers[name]
    numbers = {job.job_id: name for name, job in cluster.workers.items()}
    known |= {number for number, name in numbers.items() if name in cluster.scheduler.aliases}
    if numbers.keys() <= known:
        return
    asked = await asyncio.create_subprocess_exec("squeue", "--noheader", "-o", "%A", stdout=asyncio.subprocess.PIPE)
    queued, _ = await asked.communicate()
    if asked.returncode == 0:
        for number in sorted(numbers.keys() - known - set(queued.decode().split())):
            warn(f"job {number} has ended before it was a worker; its log is in `log-directory`, if that is set")
            known.add(number)
            cluster.failed.add(number)


def _refused(error: Exception) -> UsageError:
    return UsageError(f"--executor slurm: {_last_line(error)}", hint=HINT)


def _last_line(error: Exception) -> str:
    """The last line of what a command of Slurm said, which is the reason."""
    return next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
