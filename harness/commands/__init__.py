# SPDX-License-Identifier: MIT
"""The commands of `./inv`, one module each, and what several of them share. They are on top: nothing imports them."""
