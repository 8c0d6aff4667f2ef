# SPDX-License-Identifier: MIT
"""/proc/profile: its buffer, and what different decoders make of it."""
