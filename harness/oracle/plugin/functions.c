// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Executed instructions and entries per kernel function, by context. Entries are executions of its first instruction,
 * less those that it comes back to by a jump of its own (loops.h).
 *
 * Each instruction adds one to its function's counter, inline: exact also where a block is left in its middle. One
 * addition does for several instructions where all but the last work on registers alone and so cannot fail.
 * A change of context (rare) books what the counters grew by since the last one to the context that ends.
 *
 * Instructions count when they start: one that faults counts again when it is repeated, a repeated string
 * instruction once per iteration, as the virtual clock counts it.
 */
#include "check.h"
#include "context.h"
#include "isa.h"
#include "loops.h"
#include "oracle.h"
#include "output.h"
#include "places.h"
#include "region.h"
#include "registers.h"

#include <inttypes.h>
#include <string.h>

enum { USER, OUTSIDE, FIRST }; /* counters that belong to no function */
enum { MAX_USED = 1 << 15 };
static const char name[] = "functions.bin";

struct record {
	uint32_t region;
	uint16_t kind, context;
	uint64_t address, instructions, entries;
};

/* A function gets its counters when it is first translated; [0] instructions, [1] entries. */
static uint32_t used_of[MAX_FUNCTIONS];
static uint32_t used = FIRST;
static uint64_t now[2][MAX_USED], booked[2][MAX_USED];
static uint64_t total[CONTEXTS][2][MAX_USED];
static uint64_t at_begin[KINDS][CONTEXTS][2][MAX_USED];
static uint64_t user_at_begin[KINDS];
static struct check check;
static FILE *sink;

static void book(enum context context)
{
	for (int what = 0; what < 2; what++) {
		uint64_t *restrict to = total[context][what], *restrict old = booked[what];
		const uint64_t *restrict fresh = now[what];

		for (uint32_t i = 0; i < used; i++) {
			to[i] += fresh[i] - old[i];
			old[i] = fresh[i];
		}
	}
}

/* -- translation --------------------------------------------------------------------------------------- */

static uint32_t counter_of(uint64_t address, struct range *function)
{
	size_t low;

	*function = (struct range){ 0 };
	if (address < places.kernel)
		return USER;
	if (address < places.functions[0] || address >= places.text_end)
		return OUTSIDE;
	low = places_function(address);
	if (!used_of[low] && used == MAX_USED)
		return OUTSIDE;
	function->low = places.functions[low];
	function->high = places_end(low);
	if (!used_of[low]) {
		used_of[low] = used++;
		loops_find(*function);
	}
	return used_of[low];
}

/* Instructions that one addition will count. */
static struct {
	struct qemu_plugin_insn *insn;
	uint32_t counter, n;
	bool more; /* the last one cannot fail */
} group;

static void flush(void)
{
	if (group.n)
		count_inline(group.insn, &now[0][group.counter], group.n);
	group.n = 0;
}

static void translate(const struct instruction *instruction)
{
	struct qemu_plugin_insn *insn = instruction->insn;
	struct range function;
	uint32_t counter = counter_of(instruction->address, &function);
	enum turn turn = counter == USER ? TURN_NONE : context_translate(instruction, &now[0][counter]);

	if (counter >= FIRST)
		loops_translate(instruction, function.low, &now[1][counter]);
	if (turn == TURN_LEAVES) {
		flush();
		return;
	}
	if (turn == TURN_ENTERS || !group.n || !group.more || group.counter != counter) {
		flush();
		group.insn = insn;
		group.counter = counter;
	}
	group.n++;
	group.more = isa_cannot_fail(instruction->code, instruction->size);
	if (instruction->address == function.low && counter >= FIRST)
		count_inline(insn, &now[1][counter], 1);
}

/* -- regions ------------------------------------------------------------------------------------------- */

static void write_record(enum kind kind, enum context context, uint32_t counter, uint64_t address)
{
	struct record record = {
		.region = regions[kind].begun - 1,
		.kind = (uint16_t)kind,
		.context = (uint16_t)(counter == USER ? IN_USER : context),
		.address = address,
		.instructions = total[context][0][counter] - at_begin[kind][context][0][counter],
		.entries = total[context][1][counter] - at_begin[kind][context][1][counter],
	};

	if (counter == USER) { /* user code runs between contexts: whatever context it was booked to, it is user's */
		record.instructions = now[0][USER] - user_at_begin[kind];
		record.entries = 0;
	}
	if (record.instructions)
		put(sink, name, &record, sizeof(record));
}

static void on_region(unsigned int cpu, enum kind kind, bool begin)
{
	(void)cpu;
	book(context_now());
	if (begin) {
		memcpy(at_begin[kind], total, sizeof(total));
		user_at_begin[kind] = now[0][USER];
		return;
	}
	if (kind == KIND_CHECK) {
		check_done(&check, now[0][USER] - user_at_begin[kind]);
		return;
	}
	if (!sink)
		sink = output(name);
	write_record(kind, IN_TASK, USER, 0);
	for (enum context context = IN_TASK; context < IN_USER; context++) {
		write_record(kind, context, OUTSIDE, 0);
		for (size_t i = 0; i < places.n_functions; i++)
			if (used_of[i])
				write_record(kind, context, used_of[i], places.functions[i]);
	}
}

static void report(FILE *json)
{
	fprintf(json, " \"functions\": {\"used\": %" PRIu32 ", \"overflow\": %s, ", used,
		used == MAX_USED ? "true" : "false");
	context_report(json);
	fputs(", \"check_instructions\": ", json);
	check_report(&check, json);
	fputs("},\n", json);
}

/* -- the mode ------------------------------------------------------------------------------------------ */

static void init(const struct settings *settings)
{
	(void)settings;
	context_init(book);
}

static void finish(void)
{
	if (!sink)
		sink = output(name);
	output_close(sink, name);
}

const struct oracle_mode functions_mode = {
	.name = "functions",
	.lacks = registers_lacks,
	.init = init,
	.translate = translate,
	.flush = flush,
	.region = on_region,
	.finish = finish,
	.report = report,
};
