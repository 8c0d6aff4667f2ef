# SPDX-License-Identifier: MIT
"""The content-addressed store on this host: what was built is found again by the hash of what it was made of."""
