// SPDX-License-Identifier: MIT
/* Another process's memory: its ranges, paging them out, fetching them. */
#include "advised.h"

#include <sys/syscall.h>
#include <sys/uio.h>

enum { MOST_RANGES = 256, AT_ONCE = 64, MOST_LOCKS = 4096, LOCK_KIB = 256, LEFT_KIB = 64, MORE_KIB = 2048 };

static struct iovec private_ranges[MOST_RANGES];

/* What it can write, but for devices and the kernel's own pages. */
static size_t ranges_of(pid_t pid)
{
	char path[64], line[512];
	size_t n = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		die_errno("%s", path);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long long begin, end;
		char rights[5];

		if (sscanf(line, "%llx-%llx %4s", &begin, &end, rights) != 3)
			die("%s has no line of mappings", path);
		if (rights[1] != 'w' || rights[3] != 'p')
			continue;
		if (n == MOST_RANGES)
			die("%s has more than %d mappings", path, MOST_RANGES);
		private_ranges[n++] = (struct iovec){ (void *)(uintptr_t)begin, end - begin };
	}
	fclose(maps);
	return n;
}

static int open_process(pid_t pid)
{
	const int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd < 0)
		die_errno("pidfd_open");
	return fd;
}

/* Whether all of the ranges took it. */
static bool advise(int process, const struct iovec *ranges, size_t n, int advice)
{
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += ranges[i].iov_len;
	return syscall(SYS_process_madvise, process, ranges, n, advice, 0) == (ssize_t)bytes;
}

uint64_t kib_of(const char *path, const char *name)
{
	char text[4096], *at;

	if (get_text(path, text, sizeof(text)) < 0 || !(at = strstr(text, name)))
		die_errno("%s", path);
	return strtoull(at + strlen(name), NULL, 10);
}

/*
 * What was written to swap space stays in memory too until that is needed. So need it: lock all free memory and as much as
 * was written, bit by bit, and give it back.
 */
static void empty_swap_cache(uint64_t written_kib)
{
	const uint64_t most = (kib_of("/proc/meminfo", "MemFree:") + written_kib + MORE_KIB) / LOCK_KIB;
	static void *locked[MOST_LOCKS];
	uint64_t left_kib;
	size_t n = 0;

	while (n < most && n < MOST_LOCKS && kib_of("/proc/meminfo", "SwapCached:") > LEFT_KIB) {
		locked[n] = mmap(NULL, LOCK_KIB << 10, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED | MAP_POPULATE, -1, 0);
		if (locked[n++] == MAP_FAILED)
			die_errno("locking memory");
	}
	left_kib = kib_of("/proc/meminfo", "SwapCached:");
	if (left_kib > LEFT_KIB + written_kib / 8)
		die("%llu KiB stay in memory", (unsigned long long)left_kib);
	while (n)
		munmap(locked[--n], LOCK_KIB << 10);
}

uint64_t page_out(pid_t pid)
{
	const int process = open_process(pid);
	const size_t n = ranges_of(pid);
	char path[64];

	for (size_t i = 0; i < n; i++)
		if (!advise(process, private_ranges + i, 1, MADV_PAGEOUT))
			die_errno("MADV_PAGEOUT");
	close(process);
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	empty_swap_cache(kib_of(path, "VmSwap:"));
	return kib_of(path, "VmSwap:") / (PAGE / 1024);
}

struct plan plan_everything(pid_t pid)
{
	return (struct plan){ private_ranges, ranges_of(pid) };
}

uint64_t fetch(pid_t pid, const struct plan *plan)
{
	const int process = plan->n ? open_process(pid) : -1;
	uint64_t pages = 0;

	for (size_t i = 0; i < plan->n; i += AT_ONCE) {
		const size_t n = plan->n - i < AT_ONCE ? plan->n - i : AT_ONCE;
		const bool all = advise(process, plan->ranges + i, n, MADV_WILLNEED);

		for (size_t k = i; k < i + n; k++)
			if (all || advise(process, plan->ranges + k, 1, MADV_WILLNEED))
				pages += plan->ranges[k].iov_len / PAGE;
	}
	if (process >= 0)
		close(process);
	return pages;
}
