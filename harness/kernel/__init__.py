# SPDX-License-Identifier: MIT
"""Kernels: specs, sources, patches, builds."""
