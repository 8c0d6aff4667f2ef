#!/bin/sh
# SPDX-License-Identifier: MIT
# Run the job on standard input and send everything it left behind to the host.
# A job is shell text; /run/krepro/out is what the host gets.
echo 1 >/sys/bus/pci/rescan
out=/run/krepro/out
rm -rf "$out"
mkdir -p "$out"
cat >/run/krepro/job
cd "$out" || exit 125
sh /run/krepro/job >job.stdout 2>job.stderr </dev/null
echo $? >job.exit
dmesg >dmesg
cat /proc/interrupts >interrupts.final
krepro-send "$out"
