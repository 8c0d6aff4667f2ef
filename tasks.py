# SPDX-License-Identifier: MIT
"""Invoke's tasks: what harness/commands declares. `./inv --list` shows them."""

from harness.commands.tasks import collection

namespace = collection()
