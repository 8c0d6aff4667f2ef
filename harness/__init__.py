# SPDX-License-Identifier: MIT
"""krepro: reproduces kernel-measurement papers, claim by claim, with an exact ground truth beside them."""

__version__ = "0.1.0"
