# SPDX-License-Identifier: MIT
"""Several exact profiles at a time: kernels, seeds, programs; here, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.artefacts.store import Store
from harness.errors import RunError, UsageError
from harness.kernel.load import load_kernel
from harness.program.guestrun import exit_status, planned
from harness.program.profile.profile import Profile, read_profile
from harness.program.subject import PROFILE, Subject
from harness.progress import step
from harness.run.cluster.executor import DaskExecutor, connected
from harness.run.description import describe_trial
from harness.run.executor import LocalExecutor
from harness.scratch import discard
from harness.trial.model import TrialRecord, TrialSpec


def profiles(store: Store, wanted: Sequence[tuple[Subject, str, int]], label: str) -> list[Profile]:
    """One for each subject, kernel and seed, in order; where the first one's request says.

    UsageError for kernels of several architectures, RunError when a run fails, or ends otherwise than the first.
    """
    for it, kernel, _ in wanted:
        arch = load_kernel(kernel, PROFILE).spec.arch
        if arch != it.things.arch:
            raise UsageError(f"{kernel}: is for {arch}, and the first kernel for {it.things.arch}")
    found: dict[int, Profile] = {}
    with connected(wanted[0][0].request.executor) as client:
        runs = [planned(store, it, kernel, seed=seed, repetition=i) for i, (it, kernel, seed) in enumerate(wanted)]
        with step(label, total=len(wanted)) as bar:

            def done(spec: TrialSpec, record: TrialRecord) -> None:
                program = runs[spec.repetition].traced(record)
                found[spec.repetition] = replace(read_profile(program), status=exit_status(program))
                discard(program.raw)
                bar.advance(1)

            specs = [run.spec for run in runs]
            if client is None:
                LocalExecutor().run(specs, done)
            else:
                descriptions = {(spec.arm, spec.repetition): describe_trial(spec) for spec in specs}
                DaskExecutor(client, descriptions, lambda _machine, _host: 0).run(specs, done)
    profiled = [found[i] for i in range(len(wanted))]
    first = profiled[0].status
    for (_, kernel, _), profile in zip(wanted, profiled, strict=True):
        if profile.status != first:
            raise RunError(f"on {kernel} the program ended with exit status {profile.status}, and first with {first}")
    return profiled
