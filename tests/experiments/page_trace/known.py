# SPDX-License-Identifier: MIT
"""The cases of pageknown, for tests; reading its answers is the experiment's own."""

from __future__ import annotations

import re

from harness.measure.loading import load_module
from harness.paths import EXPERIMENTS

EXPERIMENT = EXPERIMENTS / "page-trace"
GUEST = EXPERIMENT / "guest"
_known = load_module(EXPERIMENT / "known.py")
Known, known_of, visits = _known.Known, _known.known_of, _known.visits
#: Every case, by its name.
CASES = re.findall(r'^\t\{ "([\w-]+)", ', (GUEST / "pageknown/pageknown.c").read_text(), re.MULTILINE)
#: Runs all of them; none stops the others. With little memory the kernel switches huge pages off.
ALL_CASES = (
    "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled; "
    'for name in $(pageknown list); do pageknown "$name" || echo "$name: $?" >&2; done'
)
