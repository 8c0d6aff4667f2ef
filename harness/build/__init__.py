# SPDX-License-Identifier: MIT
"""Kernels, images and guest programs, and the content-addressed store that keeps them."""
