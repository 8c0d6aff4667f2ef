# SPDX-License-Identifier: MIT
"""What `--executor` says where it cannot begin."""

from __future__ import annotations

import sys

import pytest

from harness.errors import UsageError
from harness.run.cluster.executor import connected


@pytest.mark.parametrize(
    ("where", "absent"), [("dask://127.0.0.1:1", "distributed"), ("slurm", "distributed"), ("slurm", "dask_jobqueue")]
)
def test_without_the_extra_it_says_what_to_install(monkeypatch, where, absent):
    if absent == "dask_jobqueue":
        pytest.importorskip("distributed")
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(UsageError) as caught, connected(where):
        pass
    assert "--executor needs Dask: " in str(caught.value)
    assert caught.value.hint is not None
    assert "-r requirements-dask.lock" in caught.value.hint


@pytest.mark.parametrize("where", ["nowhere", "slurm:2", "dask://host"])
def test_other_words_are_refused(where):
    with pytest.raises(UsageError, match="must be dask://HOST:PORT, tls://HOST:PORT or slurm"), connected(where):
        pass
