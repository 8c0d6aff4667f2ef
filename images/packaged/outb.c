// SPDX-License-Identifier: MIT
/* outb PORT VALUE: write one byte to an I/O port, as the program itself: Debian's kernels for clouds have no /dev/port. */
#include "krepro.h"

#include <sys/io.h>

int main(int argc, char **argv)
{
	unsigned long port, byte;

	if (argc != 3)
		die_usage("usage: outb PORT VALUE");
	port = strtoul(argv[1], NULL, 0);
	byte = strtoul(argv[2], NULL, 0);
	if (port > 0xffff || byte > 0xff)
		die_usage("outb: %s %s is no port and byte", argv[1], argv[2]);
	if (iopl(3))
		die_errno("iopl");
	outb((unsigned char)byte, (unsigned short)port);
	return 0;
}
