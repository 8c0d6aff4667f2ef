#!/bin/sh
# SPDX-License-Identifier: MIT
# page-swap: give the guest 16 MiB of swap space, so that pages can be paged out. The space is memory of a file system
# that is never swapped itself.
set -e
grep -q '^/dev/loop' /proc/swaps && exit 0
mkdir -p /run/page-swap
mount -t ramfs ramfs /run/page-swap
dd if=/dev/zero of=/run/page-swap/space bs=65536 count=256 2>/dev/null
device=$(losetup -f)
losetup "$device" /run/page-swap/space
mkswap "$device" >/dev/null
swapon "$device"
