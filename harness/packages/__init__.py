# SPDX-License-Identifier: MIT
"""Debian packages and the tools tree made of them: locked, fetched, checked, unpacked. Nothing is installed here."""
