#!/bin/sh
# SPDX-License-Identifier: MIT
# traced [LOCKTRACE OPTION...] -- COMMAND...: run a command as the arm says, KREPRO_TRACE, in the workload's folder.
cd "/run/krepro/out/$KREPRO_WORKLOAD" || exit 125
exec locktrace -m "$KREPRO_TRACE" -o . "$@"
