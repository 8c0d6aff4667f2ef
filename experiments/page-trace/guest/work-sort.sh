#!/bin/sh
# SPDX-License-Identifier: MIT
# work-sort [COMMAND...]: sort KREPRO_LINES lines of text (default 2000) with Debian's busybox, a static program, run by
# the command if there is one: "roi-exec", or "pagetrace -o FILE --". Prints the result's checksum as JSON.
lines=${KREPRO_LINES:-2000}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
pagetext "$lines" >"$folder/text" || exit 1
"$@" /bin/busybox sort "$folder/text" >"$folder/out" || exit
[ "$(wc -l <"$folder/out")" -eq "$lines" ] || exit 3
busybox sort -c "$folder/out" || exit 3
sum=$(sha256sum <"$folder/out") bytes=$(wc -c <"$folder/out") || exit 1
echo "{\"workload\": \"sort\", \"lines\": $lines, \"bytes\": $bytes, \"checksum\": \"${sum%% *}\"}"
