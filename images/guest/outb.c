// SPDX-License-Identifier: MIT
/* outb PORT VALUE: write one byte to an I/O port. */
#include "krepro.h"

static unsigned long number(const char *text, unsigned long limit)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 0);
	if (errno || *end || end == text || value > limit)
		die_usage("%s is not a number up to %#lx", text, limit);
	return value;
}

int main(int argc, char **argv)
{
	unsigned char byte;
	unsigned long port;
	int fd;

	if (argc != 3)
		die_usage("usage: outb PORT VALUE");
	port = number(argv[1], 0xffff);
	byte = (unsigned char)number(argv[2], 0xff);
	fd = open_or_die("/dev/port", O_WRONLY);
	if (pwrite(fd, &byte, 1, (off_t)port) != 1)
		die_errno("/dev/port at %#lx", port);
	return 0;
}
