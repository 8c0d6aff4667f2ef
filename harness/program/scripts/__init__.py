# SPDX-License-Identifier: MIT
"""What other tools' command lines, files and folders would have the kernel trace: a module for each tool."""
