# SPDX-License-Identifier: MIT
"""Sessions with a running guest: jobs in, a folder of what they left behind out."""
