# SPDX-License-Identifier: MIT
"""Several exact profiles, as many at a time as the host has processors: kernels, seeds, programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from harness.artefacts.store import Store
from harness.errors import RunError, UsageError
from harness.kernel.load import load_kernel
from harness.program.profile.profile import Profile, read_profile
from harness.program.tracing import PROFILE, Subject, exit_status, traced
from harness.progress import step
from harness.scratch import discard
from harness.trial.prepare import build_for


def profiles(store: Store, wanted: Sequence[tuple[Subject, str, int]], label: str) -> list[Profile]:
    """One for each subject, kernel and seed, in order.

    UsageError for kernels of several architectures, RunError when a run fails, or ends otherwise than the first.
    """
    for it, kernel, _ in wanted:
        arch = load_kernel(kernel, PROFILE).spec.arch
        if arch != it.things.arch:
            raise UsageError(f"{kernel}: is for {arch}, and the first kernel for {it.things.arch}")
    with step(label, total=len(wanted)) as bar, ThreadPoolExecutor(os.cpu_count()) as pool:
        runs: list[Future[Profile]] = []
        try:
            for it, kernel, seed in wanted:
                build_for(store, kernel, PROFILE, ())  # fetched while others run
                runs.append(pool.submit(_profile, store, it, kernel, seed))
                runs[-1].add_done_callback(lambda _run: bar.advance(1))
            done = [run.result() for run in runs]
        except BaseException:
            for run in runs:
                run.cancel()
            raise
    first = done[0].status
    for (_, kernel, _), profile in zip(wanted, done, strict=True):
        if profile.status != first:
            raise RunError(f"on {kernel} the program ended with exit status {profile.status}, and first with {first}")
    return done


def _profile(store: Store, it: Subject, kernel: str, seed: int) -> Profile:
    program = traced(store, it, kernel, None, seed=seed)
    try:
        return replace(read_profile(program), status=exit_status(program))
    finally:
        discard(program.raw)
