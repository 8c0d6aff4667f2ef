"""The words of a verdict, apart from what decides it: a list of sets needs the words only."""

from __future__ import annotations

from typing import Literal

Verdict = Literal["reproduced", "contradicted", "not-measurable"]
