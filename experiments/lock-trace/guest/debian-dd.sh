#!/bin/sh
# SPDX-License-Identifier: MIT
# debian-dd N: Debian's dd writes N bytes one by one into a pipe, and another one reads them. Each write takes the pipe's
# mutex once: the pipe holds more than N. The paths are there because busybox takes itself for dd.
read -r begin rest </proc/uptime
/bin/dd if=/dev/zero bs=1 count="$1" status=none | /bin/dd of=/dev/null bs=1 status=none || exit
read -r end rest </proc/uptime
ticks=$((${end%.*}${end#*.} - ${begin%.*}${begin#*.}))
echo "{\"workload\": \"debian-dd\", \"operations\": $1, \"elapsed_ns\": $((ticks * 10000000))}"
