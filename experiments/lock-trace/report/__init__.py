# SPDX-License-Identifier: MIT
"""What `./inv locks` writes about a program of a user's."""
