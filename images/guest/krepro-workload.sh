#!/bin/sh
# SPDX-License-Identifier: MIT
# krepro-workload NAME TIMEOUT_S COMMAND [COLLECTOR...]
# Run one workload between the begin and the end of its collectors; keep output and exit status.
name=$1 limit=$2 command=$3
shift 3
dir=/run/krepro/out/$name
mkdir -p "$dir"
export KREPRO_WORKLOAD="$name"

fail() {
	echo "krepro-workload: $1" >&2
	echo "$1" >"$dir/failed"
	exit 1
}

for collector in "$@"; do
	"collect-$collector" begin "$dir" || fail "collector $collector could not begin"
done
krepro-roi begin
timeout "$limit" sh -c "$command" >"$dir/stdout" 2>"$dir/stderr" </dev/null
status=$?
krepro-roi end
echo $status >"$dir/exit"
reversed=
for collector in "$@"; do reversed="$collector $reversed"; done
for collector in $reversed; do
	"collect-$collector" end "$dir" || fail "collector $collector could not end"
done
[ $status -eq 143 ] && fail "timed out after $limit s"
[ $status -eq 0 ] || fail "exit status $status: $(tail -n 1 "$dir/stderr")"
