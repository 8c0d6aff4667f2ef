#!/bin/sh
# SPDX-License-Identifier: MIT
# lt-modules N: N times a module that uses its locks comes and goes, and at the end it is there.
for _ in $(seq "$1"); do
	rmmod ltowner || exit 1
	insmod /krepro/modules/ltowner.ko || exit 1
done
