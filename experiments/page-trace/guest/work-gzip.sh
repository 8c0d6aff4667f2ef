#!/bin/sh
# SPDX-License-Identifier: MIT
# work-gzip [COMMAND...]: compress KREPRO_LINES lines of text (default 1000) with Debian's gzip, run by the command if
# there is one: "roi-exec", or "pagetrace -o FILE --". Prints the result's checksum as JSON. The path is there because
# busybox takes itself for gzip.
lines=${KREPRO_LINES:-1000}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
pagetext "$lines" >"$folder/text" || exit 1
"$@" /bin/gzip -9 -n -c "$folder/text" >"$folder/out" || exit
/bin/gzip -d -c <"$folder/out" | cmp - "$folder/text" || exit 3
sum=$(sha256sum <"$folder/out") bytes=$(wc -c <"$folder/out") || exit 1
echo "{\"workload\": \"gzip\", \"lines\": $lines, \"bytes\": $bytes, \"checksum\": \"${sum%% *}\"}"
