# SPDX-License-Identifier: MIT
"""An oracle that an arm cannot have is refused before anything is built."""

from __future__ import annotations

import pytest

from harness.artefacts.store import Store
from harness.errors import UsageError
from harness.run.prepared import prepare_trials, with_oracle
from harness.trial.plan import make_plan
from tests.trials import made_experiment


@pytest.mark.parametrize(
    ("arm", "reason"),
    [
        ({"record": True, "oracle": ["functions"]}, "arm [ab]: a recorded guest cannot have an oracle"),
        ({"oracle": ["counters"]}, r"arm [ab]: .* needs devices: \[counters\]"),
        ({"oracle": ["functions", "locks"]}, "arm [ab]: .* needs oracle_locks"),
    ],
)
@pytest.mark.parametrize("by_option", [False, True])
def test_an_oracle_that_cannot_be_is_found_before_anything_is_built(tmp_path, arm, reason, by_option):
    modes = arm["oracle"]
    given = {name: value for name, value in arm.items() if not by_option or name != "oracle"}
    experiment = made_experiment({"w": "true"}, {"a": {"kernel": "classic"}, "b": {"kernel": "classic", **given}})
    if by_option:
        experiment = with_oracle(experiment, modes)
    store = Store(tmp_path / "store")
    with pytest.raises(UsageError, match=reason):
        prepare_trials(store, experiment, tmp_path, make_plan(experiment), tmp_path / "out", "tcg")
    assert not [path for path in store.root.rglob("*") if path.is_file()]
