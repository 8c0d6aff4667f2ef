# SPDX-License-Identifier: MIT
"""A user's own program or script in a guest."""
