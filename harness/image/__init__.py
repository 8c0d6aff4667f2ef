# SPDX-License-Identifier: MIT
"""What a guest boots with: its initramfs, programs, modules, ssh keys."""
