// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The exact sequence of data pages that one process touches, in its own code and in the kernel's on its behalf.
 *
 * pages.bin: 64-bit words, each a run of accesses of one kind to one page:
 *   bits 0-21 the page's number in pages.idx, 22 write, 23 by the kernel, 24-39 accesses, 40-63 instructions since
 *   the run before began. A word without accesses only lets time pass; a longer run goes on in the next word.
 * pages.idx: page numbers (address >> 12), 64 bits each, in the order of their first access.
 * pages.clk: pairs of 64 bits, instructions executed and virtual nanoseconds at that moment.
 *
 * CR3 (arm64: TTBR0_EL1) is looked at again after each instruction that writes it, so the check costs a compare per
 * access.
 *
 * A process is selected by the mark that it executes, or by one that it executes before it execs: then from where the
 * kernel has given it its new address space. It is no longer when it says so or ends.
 */
#include "check.h"
#include "isa.h"
#include "oracle.h"
#include "output.h"
#include "places.h"
#include "registers.h"
#include "timer.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { TABLE = 1 << 22, MAX_PAGES = 1 << 21, BUFFER = 1 << 16, MAX_SPANS = 64 };
enum { MAX_COUNT = 0xffff, MAX_DT = 0xffffff };
enum { ANCHOR_NS = 10000000 }; /* between two of pages.clk, on average */
/* The check: krepro-roi's own loop over its pages. */
enum { CHECK_PAGES = 16, CHECK_ACCESSES = 4096, CHECK_SEED = 0x12345678 };

static uint64_t table_page[TABLE]; /* page + 1 */
static uint32_t table_index[TABLE];
static uint32_t n_pages;
static uint64_t buffer[BUFFER];
static size_t filled;
static uint64_t words, accesses;
static FILE *sink, *index_sink, *clock_sink;

static bool selected, checking, stale = true, ours;
static uint64_t cr3, ticks; /* instructions executed */
static uint64_t exec_cr3, exec_stack, exit_stack; /* 0: none; a task is told by its kernel stack */
static uint64_t run_key = UINT64_MAX; /* page << 2 | kernel << 1 | write */
static uint64_t run_word, run_count, run_ticks, last_ticks;
static uint32_t check_state = CHECK_SEED, check_seen, check_wrong;
static struct check seen;
static uint64_t check_base;
static struct {
	uint64_t first, last; /* words */
	uint64_t ticks;
} spans[MAX_SPANS];
static unsigned int n_spans, lost_spans;

static void drain(void)
{
	if (filled && fwrite(buffer, sizeof(buffer[0]), filled, sink) != filled)
		die("pages.bin: %s", strerror(errno));
	filled = 0;
}

static void put_word(uint64_t word)
{
	buffer[filled++] = word;
	words++;
	if (filled == BUFFER)
		drain();
}

static uint64_t index_of(uint64_t page)
{
	size_t i = page * 0x9e3779b97f4a7c15ull >> 42;

	while (table_page[i] && table_page[i] != page + 1)
		i = (i + 1) % TABLE;
	if (!table_page[i]) {
		if (n_pages == MAX_PAGES)
			die("a process touched more than %d pages", MAX_PAGES);
		table_page[i] = page + 1;
		table_index[i] = n_pages++;
		put(index_sink, "pages.idx", &page, sizeof(page));
	}
	return table_index[i];
}

static void end_run(void)
{
	uint64_t dt = run_ticks - last_ticks;

	if (!run_count)
		return;
	last_ticks = run_ticks;
	for (; dt > MAX_DT; dt -= MAX_DT)
		put_word((uint64_t)MAX_DT << 40);
	for (; run_count > MAX_COUNT; run_count -= MAX_COUNT, dt = 0)
		put_word(run_word | (uint64_t)MAX_COUNT << 24 | dt << 40);
	put_word(run_word | run_count << 24 | dt << 40);
	accesses += run_count;
	run_count = 0;
	run_key = UINT64_MAX;
}

static void touch(uint64_t key)
{
	if (key == run_key && run_count < UINT32_MAX) {
		run_count++;
		return;
	}
	end_run();
	run_key = key;
	run_word = index_of(key >> 2) | (key & 1) << 22 | (key >> 1 & 1) << 23;
	run_ticks = ticks;
	run_count = 1;
}

/* The check's generator, as krepro-roi has it. */
static void check_access(uint64_t page, bool write)
{
	uint32_t x = check_state, want;

	if (!check_base)
		check_base = page;
	if (page - check_base >= CHECK_PAGES) /* something else that krepro-roi touched */
		return;
	want = x >> 8 & (CHECK_PAGES - 1);
	if (!check_seen)
		want = 0; /* the first access tells where the pages are */
	check_wrong += page - check_base != want || write != (check_seen && (x >> 20 & 1));
	if (check_seen++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		check_state = x;
	}
}

static void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *by_kernel)
{
	uint64_t page = address >> PAGE_BITS, last;

	(void)cpu;
	if (!selected || address >= places.kernel)
		return;
	if (stale) {
		stale = false;
		ours = isa_address_space() == cr3;
	}
	if (!ours)
		return;
	last = (address + (1ull << qemu_plugin_mem_size_shift(info)) - 1) >> PAGE_BITS;
	for (; page <= last; page++) {
		if (checking)
			check_access(page, qemu_plugin_mem_is_store(info));
		else
			touch(page << 2 | (uint64_t)(uintptr_t)by_kernel << 1 | qemu_plugin_mem_is_store(info));
	}
}

static void on_address_space(unsigned int cpu, void *data)
{
	(void)cpu;
	isa_address_space_changed((uintptr_t)data);
	stale = true;
}

static void open_files(void)
{
	if (sink)
		return;
	sink = output("pages.bin");
	index_sink = output("pages.idx");
	clock_sink = output("pages.clk");
}

static void select_process(bool select, bool check)
{
	open_files();
	if (!select) {
		end_run();
		if (selected && checking)
			check_done(&seen, check_seen);
		if (selected && !checking && n_spans && n_spans <= MAX_SPANS)
			spans[n_spans - 1].last = words;
		selected = checking = false;
		return;
	}
	if (selected)
		return;
	selected = true;
	checking = check;
	stale = true;
	cr3 = isa_address_space();
	exit_stack = 0;
	if (check) {
		check_state = CHECK_SEED;
		check_seen = 0;
		check_base = 0;
	} else if (n_spans < MAX_SPANS) {
		spans[n_spans].first = spans[n_spans].last = words;
		spans[n_spans++].ticks = last_ticks = ticks;
	} else {
		lost_spans++;
		selected = false;
	}
}

/* Before the first instruction of one of the kernel's functions, where SP is true. */
static void on_function(unsigned int cpu, void *function)
{
	uint64_t address = *(const uint64_t *)function;
	uint64_t stack = isa_stack() & ~(places.stack_bytes - 1);

	(void)cpu;
	if (address == places.exec_begin && exec_cr3 && isa_address_space() == exec_cr3) {
		exec_stack = stack;
	} else if (address == places.exec_done && exec_stack == stack) {
		exec_cr3 = exec_stack = 0;
		select_process(true, false);
	} else if (address == places.exit_group) {
		if (isa_address_space() == exec_cr3)
			exec_cr3 = exec_stack = 0;
		if (selected && isa_address_space() == cr3)
			exit_stack = stack;
	} else if (address == places.exit_memory && exit_stack == stack) {
		exit_stack = 0;
		select_process(false, false);
	}
}

static const uint64_t *const functions[] = { &places.exec_begin, &places.exec_done, &places.exit_group,
					     &places.exit_memory };

static void translate(const struct instruction *instruction)
{
	struct qemu_plugin_insn *insn = instruction->insn;
	uint64_t address = instruction->address;
	bool kernel = address >= places.kernel;
	uintptr_t data;

	if (kernel && isa_may_change_address_space(instruction, &data))
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_address_space, QEMU_PLUGIN_CB_NO_REGS, (void *)data);
	for (size_t i = 0; kernel && i < sizeof(functions) / sizeof(functions[0]); i++)
		if (address == *functions[i])
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_function, QEMU_PLUGIN_CB_NO_REGS,
							       (void *)functions[i]);
	count_inline(insn, &ticks, 1);
	qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
					 (void *)(uintptr_t)kernel);
}

static void command(enum kind kind, enum operation operation)
{
	switch (operation) {
	case OP_SELECT:
	case OP_DESELECT:
		select_process(operation == OP_SELECT, kind == KIND_CHECK);
		break;
	case OP_SELECT_EXEC:
		exec_cr3 = isa_address_space();
		exec_stack = 0;
		break;
	default:
		break;
	}
}

static void anchor(int64_t now_ns)
{
	uint64_t pair[2] = { ticks, (uint64_t)now_ns };

	if (selected && !checking)
		put(clock_sink, "pages.clk", pair, sizeof(pair));
}

static const char *lacks(const struct settings *settings)
{
	(void)settings;
	return registers_known() ? NULL : "this QEMU does not export its registers";
}

static void init(const struct settings *settings)
{
	if (!timer_lacks(settings))
		timer_add(settings, 0, ANCHOR_NS, anchor);
}

static void finish(void)
{
	open_files();
	select_process(false, false);
	drain();
	output_close(sink, "pages.bin");
	output_close(index_sink, "pages.idx");
	output_close(clock_sink, "pages.clk");
}

static void report(FILE *json)
{
	fprintf(json,
		" \"pages\": {\"accesses\": %" PRIu64 ", \"words\": %" PRIu64 ", \"pages\": %" PRIu32
		", \"lost_spans\": %u, \"check_wrong\": %" PRIu32 ", \"check_accesses\": ",
		accesses, words, n_pages, lost_spans, check_wrong);
	check_report(&seen, json);
	fputs(", \"spans\": [", json);
	for (unsigned int i = 0; i < n_spans; i++)
		fprintf(json, "%s[%" PRIu64 ", %" PRIu64 ", %" PRIu64 "]", i ? ", " : "", spans[i].first, spans[i].last,
			spans[i].ticks);
	fputs("]},\n", json);
}

const struct oracle_mode pages_mode = {
	.name = "pages",
	.lacks = lacks,
	.init = init,
	.translate = translate,
	.command = command,
	.finish = finish,
	.report = report,
};
