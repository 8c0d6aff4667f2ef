# SPDX-License-Identifier: MIT
"""Executes a notebook's code, or the Python blocks of a page, without Jupyter: `python -m tests.notebook FILE`.

As in a notebook's kernel, an event loop runs in the thread all the while.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path


def cells(path: Path) -> list[str]:
    """The pieces of code, in order."""
    if path.suffix == ".md":
        return re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)
    notebook = json.loads(path.read_text())
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


async def execute(path: Path) -> None:
    """One after another, in one namespace."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, text in enumerate(cells(path)):
        exec(compile(text, f"{path.name}, cell {number}", "exec"), namespace)


if __name__ == "__main__":
    asyncio.run(execute(Path(sys.argv[1])))
