# SPDX-License-Identifier: MIT
"""Trials on many machines: what is sent there, what happens there, and the executor that hands them to Dask."""
