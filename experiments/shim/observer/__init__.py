# SPDX-License-Identifier: MIT
"""Decoders of microscopy from a neighbouring CPU: samples, switches, the kernel's own trace, the host's scheduling."""
