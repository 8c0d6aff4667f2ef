/* What the cases of pageknown are made of: the visits that one expects, its checks, single accesses. */
#ifndef KNOWN_H
#define KNOWN_H

#include "arena.h"

#include <signal.h>
#include <sys/auxv.h>
#include <ucontext.h>

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
static unsigned int n_checks, n_failed;
static struct {
	const char *name;
	long value;
} checks[MAX_CHECKS];

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
