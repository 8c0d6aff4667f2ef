/*
 * The arena of pageknown: pages at a fixed address that nothing touches but what a case states, and the list of
 * visits that a case expects. The arena is filled and looked at through /proc/self/mem, which goes by the kernel's
 * own addresses, so neither a tracer nor the oracle sees that.
 */
#ifndef KNOWN_H
#define KNOWN_H

#include "krepro-roi.h"
#include "tool.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/auxv.h>
#include <ucontext.h>

#define ARENA 0x10000000000ull

enum { MAX_VISITS = 1 << 14, MAX_CHECKS = 8, EITHER = -1 };

struct list {
	unsigned int n;
	struct {
		int16_t page;
		int8_t write; /* first access of the visit: 0 read, 1 write, EITHER */
	} visit[MAX_VISITS];
};

struct known {
	const char *name;
	unsigned int pages;
	bool subsequence; /* the kernel may touch pages of the case more than once */
	void (*run)(void);
};

static struct list expected, iterations;
static int arena_fd;
static unsigned int n_checks, n_failed;
static struct {
	const char *name;
	long value;
} checks[MAX_CHECKS];

static inline uint64_t at(unsigned int page, int offset)
{
	return ARENA + (uint64_t)page * PAGE + (uint64_t)(int64_t)offset;
}

static void append(struct list *list, unsigned int page, int write)
{
	if (list->n && list->visit[list->n - 1].page == (int16_t)page)
		return;
	if (list->n == MAX_VISITS)
		die("more than %d visits", MAX_VISITS);
	list->visit[list->n].page = (int16_t)page;
	list->visit[list->n++].write = (int8_t)write;
}

static void expect(unsigned int page, int write)
{
	append(&expected, page, write);
}

static void check(const char *name, long value, long wanted)
{
	if (n_checks == MAX_CHECKS)
		die("more than %d checks", MAX_CHECKS);
	checks[n_checks].name = name;
	checks[n_checks++].value = value;
	n_failed += value != wanted;
}

/* Everything there and dirty: a fault would repeat an access, and a first write would be a fault of its own. */
static void make_arena(unsigned int pages)
{
	void *arena = mmap((void *)ARENA, (size_t)pages * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_POPULATE, -1, 0);

	if (arena != (void *)ARENA)
		die_errno("no arena");
	arena_fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (arena_fd < 0)
		die_errno("/proc/self/mem");
}

static void put(uint64_t address, uint64_t value)
{
	if (pwrite(arena_fd, &value, sizeof(value), (off_t)address) != sizeof(value))
		die_errno("writing the arena");
}

static uint64_t peek(uint64_t address)
{
	uint64_t value;

	if (pread(arena_fd, &value, sizeof(value), (off_t)address) != sizeof(value))
		die_errno("reading the arena");
	return value;
}

/* One access of 8 bytes within a page, and the visit that it is. */
static uint64_t load(unsigned int page, int offset)
{
	uint64_t value;

	__asm__ volatile("mov (%1), %0" : "=r"(value) : "r"(at(page, offset)) : "memory");
	expect(page, 0);
	return value;
}

static void store(unsigned int page, int offset, uint64_t value)
{
	__asm__ volatile("mov %0, (%1)" : : "r"(value), "r"(at(page, offset)) : "memory");
	expect(page, 1);
}

#endif
