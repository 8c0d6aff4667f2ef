// SPDX-License-Identifier: MIT
/* How a program fails. */
#include "krepro.h"

#include <stdarg.h>

int exit_usage = EXIT_USAGE;

static void __attribute__((format(printf, 2, 0))) print(int error, const char *format, va_list args)
{
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, args);
	if (error)
		fprintf(stderr, ": %s", strerror(error));
	fputc('\n', stderr);
}

int complain(int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print(error, format, args);
	va_end(args);
	return EXIT_TOOL;
}

void die_with(int status, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print(error, format, args);
	va_end(args);
	exit(status);
}
