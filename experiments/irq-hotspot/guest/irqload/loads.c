// SPDX-License-Identifier: MIT
/* Loads without a device of their own: disk, network, system calls, and none. */
#include "loads.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

void run_disk(const struct options *options)
{
	int fd = open_or_die(options->device, O_RDONLY | O_DIRECT);
	uint64_t state = options->seed, begin = now_ns(), bytes = 0, blocks;
	off_t size = lseek(fd, 0, SEEK_END);
	void *buffer;

	if (size < 0)
		die_errno("%s: size", options->device);
	blocks = (uint64_t)size / options->block_size;
	if (!blocks || blocks > UINT32_MAX)
		die("%s: %llu blocks of %llu bytes", options->device, (unsigned long long)blocks,
		    (unsigned long long)options->block_size);
	if (posix_memalign(&buffer, 4096, options->block_size))
		die("no memory for a block of %llu bytes", (unsigned long long)options->block_size);
	for (uint64_t i = 0; i < options->blocks; i++) {
		off_t offset = (off_t)(random_below(&state, (uint32_t)blocks) * options->block_size);
		ssize_t n = pread(fd, buffer, options->block_size, offset);

		if (n < 0 && errno == EINTR) {
			i--;
			continue;
		}
		if (n < 0)
			die_errno("%s: reading at %lld", options->device, (long long)offset);
		if ((uint64_t)n != options->block_size)
			die("%s: short read at %lld", options->device, (long long)offset);
		bytes += (uint64_t)n;
	}
	printf("{\"program\": \"irqload\", \"mode\": \"disk\", \"seed\": %llu, \"reads\": %llu, \"bytes\": %llu, "
	       "\"elapsed_ns\": %llu}\n",
	       (unsigned long long)options->seed, (unsigned long long)options->blocks,
	       (unsigned long long)bytes, (unsigned long long)(now_ns() - begin));
	free(buffer);
	close(fd);
}

void run_net(const struct options *options)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)options->port) };
	static char buffer[65536];
	uint64_t begin, received = 0;
	int fd;

	if (inet_pton(AF_INET, options->host, &address.sin_addr) != 1)
		die_usage("--host: %s is not an IPv4 address", options->host);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die_errno("socket");
	begin = now_ns();
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		die_errno("connecting to %s:%llu", options->host, (unsigned long long)options->port);
	while (received < options->bytes) {
		uint64_t want = options->bytes - received;
		ssize_t n = recv(fd, buffer, want < sizeof(buffer) ? want : sizeof(buffer), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			die_errno("receiving after %llu bytes", (unsigned long long)received);
		if (n == 0)
			die("the source ended after %llu of %llu bytes", (unsigned long long)received,
			    (unsigned long long)options->bytes);
		received += (uint64_t)n;
	}
	printf("{\"program\": \"irqload\", \"mode\": \"net\", \"bytes\": %llu, \"elapsed_ns\": %llu}\n",
	       (unsigned long long)received, (unsigned long long)(now_ns() - begin));
	close(fd);
}

/* One system call, or a few that belong together; `kind` is 0..7. */
static void system_call(uint64_t kind, const int files[2], const int ends[2])
{
	static char buffer[4096];
	const size_t size = sizeof(buffer);
	char *pages;
	ssize_t n = 0;
	int fd;

	switch (kind) {
	case 0:
		syscall(SYS_getppid);
		break;
	case 1:
	case 2:
		n = pread(files[kind - 1], buffer, size, 0);
		break;
	case 3:
		n = access("/proc/self/no/such/file", R_OK) == 0 || errno != ENOENT ? -1 : 0;
		break;
	case 4:
		n = write(ends[1], buffer, 512) == 512 && read(ends[0], buffer, 512) == 512 ? 0 : -1;
		break;
	case 5:
		pages = mmap(NULL, 4 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (pages == MAP_FAILED)
			die_errno("mmap");
		for (size_t at = 0; at < 4 * size; at += size)
			pages[at] = 1;
		n = munmap(pages, 4 * size);
		break;
	case 6:
		fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? -1 : read(fd, buffer, size);
		close(fd);
		break;
	default:
		n = readlink("/proc/self/exe", buffer, size);
	}
	if (n < 0)
		die_errno("system call of kind %d", (int)kind);
}

void run_syscalls(const struct options *options)
{
	const int files[2] = { open_or_die("/proc/self/stat", O_RDONLY), open_or_die("/proc/self/maps", O_RDONLY) };
	uint64_t state = options->seed, begin = now_ns(), rounds = 0;
	int ends[2];

	if (pipe(ends))
		die_errno("pipe");
	for (; now_ns() - begin < options->seconds * NSEC_PER_SEC; rounds++)
		system_call(random_below(&state, 8), files, ends);
	printf("{\"program\": \"irqload\", \"mode\": \"syscalls\", \"seed\": %llu, \"rounds\": %llu, "
	       "\"elapsed_ns\": %llu}\n",
	       (unsigned long long)options->seed, (unsigned long long)rounds,
	       (unsigned long long)(now_ns() - begin));
}

void run_idle(const struct options *options)
{
	uint64_t begin = now_ns(), end = begin + options->seconds * NSEC_PER_SEC;

	/* poll, not nanosleep: its system call takes no time structure of either size. */
	for (uint64_t now = begin; now < end; now = now_ns())
		if (poll(NULL, 0, (int)((end - now + 999999) / 1000000)) < 0 && errno != EINTR)
			die_errno("poll");
	printf("{\"program\": \"irqload\", \"mode\": \"idle\", \"elapsed_ns\": %llu}\n",
	       (unsigned long long)(now_ns() - begin));
}
