/* outb PORT VALUE: write one byte to an I/O port. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned long number(const char *text, unsigned long limit)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 0);
	if (errno || *end || end == text || value > limit) {
		fprintf(stderr, "outb: %s is not a number up to %#lx\n", text, limit);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	unsigned char byte;
	unsigned long port;
	int fd;

	if (argc != 3) {
		fprintf(stderr, "usage: outb PORT VALUE\n");
		return 2;
	}
	port = number(argv[1], 0xffff);
	byte = (unsigned char)number(argv[2], 0xff);
	fd = open("/dev/port", O_WRONLY);
	if (fd < 0 || pwrite(fd, &byte, 1, (off_t)port) != 1) {
		fprintf(stderr, "outb: /dev/port at %#lx: %s\n", port, strerror(errno));
		return 1;
	}
	return 0;
}
