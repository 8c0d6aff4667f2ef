/* SPDX-License-Identifier: MIT */
/* The files that a program writes: PREFIX.SUFFIX. */
#ifndef SHIM_OUT_H
#define SHIM_OUT_H

#include <stdio.h>

/* Created, or the end of the program. */
FILE *open_out(const char *prefix, const char *suffix);

#endif
