# SPDX-License-Identifier: MIT
"""QEMU: command line, QMP, accelerator proof, clock, plugins, saved states, and the sandbox."""
