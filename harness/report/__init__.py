# SPDX-License-Identifier: MIT
"""What people read: terminal tables, figures, HTML pages."""
