/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files in the folder `out`, and the end when one cannot be written. */
#ifndef KREPRO_OUTPUT_H
#define KREPRO_OUTPUT_H

#include <stdio.h>

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
void output_folder(const char *path);
FILE *output(const char *name);
/* Each dies when what was written has not arrived. */
void put(FILE *file, const char *name, const void *record, size_t size);
void output_close(FILE *file, const char *name); /* NULL: nothing to do */

#endif
