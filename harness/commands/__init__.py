# SPDX-License-Identifier: MIT
"""The commands of `./inv`, one module each: its words, and what is done with them. Nothing imports them but the api."""
