# SPDX-License-Identifier: MIT
"""Result sets: written once, whole, and never changed."""
