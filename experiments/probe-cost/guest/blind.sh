#!/bin/sh
# SPDX-License-Identifier: MIT
# blind [--only PREFIX,...]: SCRIPTS that the trial's seed draws. Each runs untraced, then counted, then traced; of these
# with CHECK=2 only the first two, and with CHECK=3 not the second.
probedraw "${SCRIPTS:-12}" "${CHECK:-1}" >/run/blind.script && probecost "$KREPRO_UNIT" "$@" </run/blind.script
