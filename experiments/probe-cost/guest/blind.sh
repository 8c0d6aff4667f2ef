#!/bin/sh
# SPDX-License-Identifier: MIT
# blind [--only PREFIX,...]: scripts that the trial's seed draws. Each runs untraced, then counted, then traced.
probedraw 12 >/run/blind.script && probecost "$KREPRO_UNIT" "$@" </run/blind.script
