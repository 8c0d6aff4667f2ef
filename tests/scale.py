# SPDX-License-Identifier: MIT
"""What the harness costs per trial, without guests: `python -m tests.scale TRIALS [SHARDS]`, for docs/scale.md.

Everything is as in a run but for the trial itself, which writes the files of a small one in no time: planning,
descriptions, sealing with its flushes to disk, analysis, digest, manifest, then verify; with SHARDS also as many sets
of parts, and their merge.
"""

from __future__ import annotations

import io
import pickle
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from harness.analysis.verification import verify
from harness.run import pipeline
from harness.run.executor import Finished
from harness.run.merging import merge
from harness.run.request import RunRequest
from harness.scratch import PREFIX
from harness.trial.execution import failed_record
from harness.trial.model import TrialSpec
from tests.folders import HELLO, experiment

#: Files of the smallest trial, and their bytes; `console.log` and `dmesg` are most of a real one.
FILES = {
    "console.log": 6000, "qmp-events.json": 200, "job.stdout": 0, "job.stderr": 0, "job.exit": 2, "pmu": 30,
    "dmesg": 6000, "interrupts.final": 600, "add/stdout": 2, "add/stderr": 80, "add/exit": 2,
}  # fmt: skip


#: Trials after which memory is told.
TOLD = (1, 500, 1000, 3000, 10_000)


class NoGuests:
    """An executor whose trials take no time. Their records share nothing, as those that come from worker processes."""

    def run(self, trials: Sequence[TrialSpec], done: Finished) -> None:
        for number, spec in enumerate(trials, 1):
            for name, size in FILES.items():
                path = spec.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"x" * size)
            (spec.folder / "add/stdout").write_text(f"{spec.params['offset']}\n")
            scratch = f"{tempfile.gettempdir()}/{PREFIX}trial-{number:08}"
            argv = tuple(f"file:{scratch}/{word}" if word % 5 == 0 else f"word-{word}-of-60" for word in range(60))
            record = failed_record(spec, "").model_copy(update={"status": "ok", "reason": None, "argv": argv})
            done(spec, pickle.loads(pickle.dumps(record)))
            if number in TOLD:
                print(f"{'':12} {resident_mib():.0f} MiB after trial {number}")


def resident_mib() -> float:
    """Resident memory of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


@contextmanager
def timed(what: str, trials: int) -> Iterator[None]:
    """Print what the block took, in all and per trial, and the memory after it."""
    began, before = time.monotonic(), time.process_time()
    yield
    took, cpu = time.monotonic() - began, time.process_time() - before
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{what:8} {took:9.2f} s, {1000 * took / trials:7.2f} ms a trial, {1000 * cpu / trials:7.2f} ms of CPU, "
        f"{resident_mib():6.0f} MiB, at most {most:.0f} MiB",
        flush=True,
    )


def main(trials: int, shards: int) -> None:
    """Run `trials` trials of no time; with `shards`, as many parts too, and merge them."""
    chosen: Callable[[], NoGuests] = NoGuests
    pipeline.LocalExecutor = chosen  # type: ignore[assignment,misc]
    root = Path(tempfile.mkdtemp(prefix="scale-"))
    try:
        folder = experiment(root / "hello", HELLO)
        quiet = Console(file=io.StringIO(), width=200)
        with timed("run", trials):
            done = pipeline.measure(RunRequest(str(folder), repetitions=trials // 2, results=root / "results"))
        print(f"{'':12} {dict(done.seconds)}, manifest {(done.result.path / 'manifest.json').stat().st_size >> 10} KiB")
        with timed("verify", trials):
            verify(root / "results", str(done.result.path), quiet)
        if shards:
            parts = []
            with timed("shards", trials):
                for number in range(1, shards + 1):
                    options = RunRequest(
                        str(folder), repetitions=trials // 2, shard=f"{number}/{shards}", results=root / "parts"
                    )
                    parts.append(str(pipeline.measure(options).result.path))
            with timed("merge", trials):
                merge(root / "merged", parts, quiet, verbose=False)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
