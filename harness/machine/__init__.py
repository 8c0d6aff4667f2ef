# SPDX-License-Identifier: MIT
"""QEMU: command line, QMP, accelerator proof, clock, saved states."""
