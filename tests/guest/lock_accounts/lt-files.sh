#!/bin/sh
# SPDX-License-Identifier: MIT
# lt-files N: so many files, all there at once, each with locks of its own.
mkdir files && cd files || exit 1
i=0
while [ $i -lt "$1" ]; do
	: >$i || exit 1
	i=$((i + 1))
done
cd .. && rm -r files
