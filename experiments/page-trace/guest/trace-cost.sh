#!/bin/sh
# SPDX-License-Identifier: MIT
# trace-cost: trace visits of known kinds (pagework turns), which tell what the tracer itself takes for one.
out=/run/krepro/out/$KREPRO_WORKLOAD
exec pagetrace -w "$KREPRO_WINDOW" -o "$out/trace" -s "$out/trace.json" pagework turns --n 2000
