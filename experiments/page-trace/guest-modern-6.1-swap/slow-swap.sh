#!/bin/sh
# SPDX-License-Identifier: MIT
# slow-swap: swap space on /dev/nullb0, a block device in memory whose every request takes a known time. All of the
# space is written once beforehand, so that none of it takes memory later. As the kernel has it, it reads 8 pages at once.
set -e
grep -q '^/dev/nullb0' /proc/swaps && exit 0
dd if=/dev/zero of=/dev/nullb0 bs=65536 count=512 conv=fsync 2>/dev/null
mkswap /dev/nullb0 32768 >/dev/null
swapon /dev/nullb0
