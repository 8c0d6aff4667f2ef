// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Acquires and releases per lock and call site: who called the given functions, for which lock.
 *
 * A call's target is a block's first instruction, where registers are true: the first argument is the lock, and the
 * word at the top of the stack (arm64: the link register) says where the function returns to. So calls through
 * pointers and tail jumps have a site too. Entries count inline besides: what the table has no room for, or could not
 * be told, is known exactly.
 */
#include "isa.h"
#include "oracle.h"
#include "output.h"
#include "places.h"
#include "region.h"
#include "registers.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MAX_CALLS = 1 << 17, MOST_CALLS = MAX_CALLS / 4 * 3 };
static const char name[] = "locks.bin";

struct count {
	uint64_t now, at_begin[KINDS];
};

static struct call {
	uint64_t lock, site; /* site: where the call returns to */
	uint32_t function;   /* 1 + its number; 0: unused */
	struct count count;
} calls[MAX_CALLS];
static size_t n_calls;
static struct count entries[MAX_LOCKS];
static uint64_t told, untold; /* in regions that ended */
static FILE *sink;

static struct call *call_at(uint32_t function, uint64_t lock, uint64_t site)
{
	uint64_t hash = (lock ^ (site << 20) ^ function) * 0x9e3779b97f4a7c15ull;
	size_t i = (hash ^ hash >> 32) % MAX_CALLS;

	while (calls[i].function &&
	       (calls[i].lock != lock || calls[i].site != site || calls[i].function != function))
		i = (i + 1) % MAX_CALLS;
	if (!calls[i].function) {
		if (n_calls == MOST_CALLS)
			return NULL;
		n_calls++;
		calls[i].lock = lock;
		calls[i].site = site;
		calls[i].function = function;
	}
	return &calls[i];
}

static void on_entry(unsigned int cpu, void *data)
{
	bool wide = places.kernel >> 32;
	uint64_t lock, site;
	struct call *call;

	(void)cpu;
	if (!region_measured() && !regions[KIND_LAP].open)
		return;
	lock = isa_first_argument();
	site = isa_return_site();
	if (!site)
		return;
	call = call_at((uint32_t)(uintptr_t)data, wide ? lock : (uint32_t)lock, site);
	if (call)
		call->count.now++;
}

static void translate(const struct instruction *instruction)
{
	struct qemu_plugin_insn *insn = instruction->insn;

	if (instruction->address < places.kernel)
		return;
	for (size_t i = 0; i < places.n_locks; i++) {
		if (places.lock[i] != instruction->address)
			continue;
		if (instruction->first)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_entry, QEMU_PLUGIN_CB_NO_REGS,
							       (void *)(uintptr_t)(i + 1));
		count_inline(insn, &entries[i].now, 1);
		return;
	}
}

static int by_place(const void *left, const void *right)
{
	const struct call *a = &calls[*(const uint32_t *)left], *b = &calls[*(const uint32_t *)right];

	if (a->function != b->function)
		return a->function < b->function ? -1 : 1;
	if (a->lock != b->lock)
		return a->lock < b->lock ? -1 : 1;
	return a->site < b->site ? -1 : a->site > b->site;
}

static void put_count(enum kind kind, uint32_t function, uint64_t site, uint64_t count, uint64_t lock)
{
	uint64_t record[] = { (uint64_t)(regions[kind].begun - 1) | (uint64_t)kind << 32, places.lock[function - 1],
			      site, count, lock };

	put(sink, name, record, sizeof(record));
}

static uint64_t since_begin(const struct count *count, enum kind kind)
{
	return count->now - count->at_begin[kind];
}

static void write_region(enum kind kind)
{
	static uint32_t order[MOST_CALLS];
	uint64_t left[MAX_LOCKS];
	size_t n = 0;

	if (!sink)
		sink = output(name);
	for (uint32_t i = 0; i < MAX_CALLS; i++)
		if (since_begin(&calls[i].count, kind))
			order[n++] = i;
	qsort(order, n, sizeof(order[0]), by_place);
	for (size_t i = 0; i < places.n_locks; i++)
		left[i] = since_begin(&entries[i], kind);
	for (size_t i = 0; i < n; i++) {
		const struct call *call = &calls[order[i]];
		uint64_t count = since_begin(&call->count, kind);

		put_count(kind, call->function, call->site, count, call->lock);
		left[call->function - 1] -= count;
		told += count;
	}
	for (uint32_t i = 0; i < places.n_locks; i++) {
		if (left[i])
			put_count(kind, i + 1, 0, left[i], 0);
		untold += left[i];
	}
}

static void on_region(unsigned int cpu, enum kind kind, bool begin)
{
	(void)cpu;
	if (kind == KIND_CHECK)
		return;
	if (!begin) {
		write_region(kind);
		return;
	}
	for (size_t i = 0; i < MAX_CALLS; i++)
		calls[i].count.at_begin[kind] = calls[i].count.now;
	for (size_t i = 0; i < places.n_locks; i++)
		entries[i].at_begin[kind] = entries[i].now;
}

static void finish(void)
{
	if (!sink)
		sink = output(name);
	output_close(sink, name);
}

static void report(FILE *json)
{
	fprintf(json, " \"locks\": {\"calls\": %zu, \"told\": %" PRIu64 ", \"untold\": %" PRIu64 "},\n", n_calls, told,
		untold);
}

const struct oracle_mode locks_mode = {
	.name = "locks",
	.lacks = registers_lacks,
	.translate = translate,
	.region = on_region,
	.finish = finish,
	.report = report,
};
