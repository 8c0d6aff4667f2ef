// SPDX-License-Identifier: GPL-2.0-or-later
#include "output.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

static char folder[4096];

_Noreturn void die(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("krepro oracle: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	_exit(1);
}

void output_folder(const char *path)
{
	if (snprintf(folder, sizeof(folder), "%s", path) >= (int)sizeof(folder))
		die("%s: path too long", path);
}

FILE *output(const char *name)
{
	char path[2 * sizeof(folder)];
	FILE *file;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		die("%s: path too long", name);
	file = fopen(path, "wb");
	if (!file)
		die("%s: %s", path, strerror(errno));
	return file;
}

void put(FILE *file, const char *name, const void *record, size_t size)
{
	if (fwrite(record, size, 1, file) != 1)
		die("%s: %s", name, strerror(errno));
}

void output_close(FILE *file, const char *name)
{
	if (file && fclose(file))
		die("%s: %s", name, strerror(errno));
}
