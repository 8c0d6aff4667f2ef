# SPDX-License-Identifier: MIT
"""What the loop of a QMP connection says of tasks that nobody waited for."""

from __future__ import annotations

import gc
from contextlib import suppress

import pytest

from harness.machine.qmp import new_loop


@pytest.mark.parametrize(("error", "said"), [(KeyboardInterrupt, False), (ValueError, True)])
def test_only_the_task_that_ctrl_c_ended_is_silent(caplog, error, said):
    async def ends() -> None:
        raise error

    loop = new_loop()
    task = loop.create_task(ends())
    loop.call_soon(loop.stop)
    with suppress(KeyboardInterrupt):
        loop.run_forever()
    assert task.done()
    del task
    gc.collect()
    loop.close()
    assert ("never retrieved" in caplog.text) is said
