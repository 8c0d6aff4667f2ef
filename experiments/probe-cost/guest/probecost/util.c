// SPDX-License-Identifier: MIT
#include "util.h"

#include <stdarg.h>

char problem[256];
bool counts_instructions;

void fail(const char *format, ...)
{
	va_list args;

	if (problem[0])
		return;
	va_start(args, format);
	vsnprintf(problem, sizeof(problem), format, args);
	va_end(args);
	for (char *c = problem; *c; c++)
		if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ')
			*c = ' ';
}

static const char *below_tracefs(const char *file, char *path, size_t size)
{
	snprintf(path, size, "%s%s", file[0] == '/' ? "" : TRACEFS "/", file);
	return path;
}

bool put(const char *file, const char *text, int flags)
{
	char path[256];

	if (try_put_text(below_tracefs(file, path, sizeof(path)), text, flags))
		return true;
	fail("%s: %s: %s", file, text, strerror(errno));
	return false;
}

char *get(const char *file, char *text, size_t size)
{
	char path[256];

	get_text(below_tracefs(file, path, sizeof(path)), text, size);
	return text;
}

long long number_after(const char *text, const char *label)
{
	const char *at = strstr(text, label);

	return at ? atoll(at + strlen(label)) : -1;
}
