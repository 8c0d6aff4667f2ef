// SPDX-License-Identifier: MIT
/* Whole reads and writes, and files of one value. */
#include "krepro.h"

int open_or_die(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0666);

	if (fd < 0)
		die_errno("%s", path);
	return fd;
}

int create_or_die(const char *path)
{
	return open_or_die(path, O_WRONLY | O_CREAT | O_TRUNC);
}

size_t read_all(int fd, const char *path, void *buffer, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = pread(fd, (char *)buffer + done, size - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			die_errno("reading %s", path);
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return done;
}

size_t write_all(int fd, const void *buffer, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = write(fd, (const char *)buffer + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		done += (size_t)n;
	}
	return done;
}

void write_or_die(int fd, const char *path, const void *buffer, size_t size)
{
	if (write_all(fd, buffer, size) != size)
		die_errno("writing %s", path);
}

void put_number(int fd, const char *path, uint64_t value)
{
	char text[24];
	int length = snprintf(text, sizeof(text), "%llu\n", (unsigned long long)value);
	ssize_t n;

	do
		n = pwrite(fd, text, (size_t)length, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		die_errno("writing %llu to %s", (unsigned long long)value, path);
	if (n != length)
		die("writing %llu to %s: short write", (unsigned long long)value, path);
}

uint64_t get_number(int fd, const char *path)
{
	char text[64], *end;
	size_t length = read_all(fd, path, text, sizeof(text) - 1);
	unsigned long long value;

	text[length] = '\0';
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text)
		die("%s: not a number", path);
	return value;
}

bool try_put_text(const char *path, const char *text, int flags)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | flags), error;
	ssize_t length = (ssize_t)strlen(text), n;

	if (fd < 0)
		return false;
	n = write(fd, text, (size_t)length);
	error = n < 0 ? errno : EIO;
	close(fd);
	errno = error;
	return n == length;
}

void put_text(const char *path, const char *text)
{
	if (!try_put_text(path, text, 0))
		die_errno("writing %s to %s", text, path);
}

ssize_t get_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), error;
	size_t length = 0;
	ssize_t n = -1;

	text[0] = '\0';
	if (fd < 0)
		return -1;
	while (length < size - 1 && (n = read(fd, text + length, size - 1 - length)) > 0)
		length += (size_t)n;
	error = errno;
	close(fd);
	text[length] = '\0';
	errno = error;
	return n < 0 ? -1 : (ssize_t)length;
}

FILE *create_in(const char *folder, const char *name)
{
	char path[4096];
	FILE *file;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		die_with(EXIT_TOOL, ENAMETOOLONG, "%s", folder);
	file = fopen(path, "we");
	if (!file)
		die_errno("%s", path);
	return file;
}

void close_or_die(FILE *file, const char *name)
{
	if (ferror(file) | fclose(file))
		die_errno("%s", name);
}

void flush_or_die(void)
{
	if (fflush(stdout) || ferror(stdout))
		die_errno("standard output");
}
