// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Executed instructions by call path, in user code and in the kernel: the tree of calls of each thread, and in each of
 * its nodes the code that executed. What lies between two blocks' begins belongs to the first of them.
 *
 * Frames are told by the stack pointer, as it is where a callee begins and where a call comes back to: so longjmp, an
 * exception's unwinding and calls that never return leave none behind. Each frame of context.h has a flow of its own:
 * a thread's user code keeps its calls while it is in the kernel, which begins below them.
 *
 * A block that was called and only jumps on is a linker's stub or a thunk: what was called is where it jumps.
 *
 * Code of the kernel is told by function, user code by block; the bytes of each page are kept, so that a reader finds
 * out which file it is of, and what changed in it. To be used with the mode functions, which keeps the contexts; both
 * count the same.
 */
#include "context.h"
#include "isa.h"
#include "oracle.h"
#include "output.h"
#include "places.h"
#include "region.h"
#include "registers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NODE_BITS = 20, LEAF_BITS = 21, MAX_NODES = 3 << (NODE_BITS - 2), MAX_LEAVES = 3 << (LEAF_BITS - 2) };
enum { FRAMES = 192, MAX_THREADS = 1 << 14, MAX_IMAGES = 1 << 12, NAME = 64, WAKES = 256 };
enum { KERNEL_IMAGE = 1 << 30, CODE_BITS = 15, MAX_CODE = 3 << (CODE_BITS - 2), PAGE = 1 << PAGE_BITS };
/* Frames further apart are of different stacks. */
#define USER_STACK (8u << 20)

enum what { THREAD, CALL, SYSTEM_CALL, EXCEPTION, INTERRUPT, SOFTIRQ, NMI };

static const char nodes_name[] = "paths.nodes", leaves_name[] = "paths.leaves", code_name[] = "paths.code";

/* Written as they are. A thread's target is its number and above that its image's; a call's its function. */
static struct node {
	uint64_t target, calls;
	uint32_t parent, what;
} nodes[MAX_NODES];
static struct leaf {
	uint64_t code, instructions; /* code: a function of the kernel, 0 for what has none, or a block */
	uint32_t node, context;
} leaves[MAX_LEAVES];
static uint32_t n_nodes = 1, n_leaves = 1; /* [0] is none's */
static uint32_t node_at[1 << NODE_BITS], leaf_at[1 << LEAF_BITS];
static uint64_t lost_nodes, lost_leaves;

static struct thread {
	uint32_t parent, image;
} threads[MAX_THREADS];
static char images[MAX_IMAGES][NAME];
static uint32_t n_threads = 1, n_images = 1, program;

/* A part of a block whose instructions belong together. */
struct block {
	uint64_t address, code, last, next; /* its last instruction, and what lies behind that */
	uint32_t n;
	enum flow ends;
	bool user, stub, thunk, leaves; /* it begins with what ends its frame */
	uint32_t node, context; /* where it was last, and there */
	struct leaf *leaf;
};

struct frame {
	uint64_t stack, site; /* site: where it returns to */
	uint32_t node;
};

struct flow_of {
	uint32_t thread, base, n;
	enum flow ended; /* how the block before ended */
	uint64_t from, next; /* with which instruction, and what lies behind that */
	bool stub;	 /* what was called so far only jumps on */
	struct frame frame[FRAMES];
};

static uint64_t ticks, booked, turns = UINT64_MAX;
static struct flow_of *flow;
static struct block *before;
static struct leaf *leaf;
static bool counting;

static size_t hash(uint64_t a, uint64_t b, unsigned int bits)
{
	a = (a ^ b << 32 ^ b >> 32) * 0x9e3779b97f4a7c15ull;
	return (a ^ a >> 29) * 0xbf58476d1ce4e5b9ull >> (64 - bits);
}

/* The same function further up: where there are many paths, one that calls itself is told once. */
static uint32_t above(uint32_t node, uint64_t target)
{
	for (; node && nodes[node].what == CALL; node = nodes[node].parent)
		if (nodes[node].target == target)
			return node;
	return 0;
}

static uint32_t node_of(uint32_t parent, enum what what, uint64_t target)
{
	size_t i = hash(target, (uint64_t)parent << 3 | what, NODE_BITS);

	for (; node_at[i]; i = (i + 1) % (1 << NODE_BITS)) {
		const struct node *node = &nodes[node_at[i]];

		if (node->target == target && node->parent == parent && node->what == what)
			return node_at[i];
	}
	if (n_nodes >= MAX_NODES / 2) {
		uint32_t same = what == CALL ? above(parent, target) : 0;

		if (same || n_nodes == MAX_NODES) {
			lost_nodes += counting;
			return same ? same : parent;
		}
	}
	nodes[n_nodes] = (struct node){ .target = target, .parent = parent, .what = what };
	return node_at[i] = n_nodes++;
}

static uint64_t function_of(uint64_t address)
{
	bool named = address >= places.functions[0] && address < places.text_end;

	return named ? places.functions[places_function(address)] : 0;
}

/* -- code ------------------------------------------------------------------------------------------- */

static struct {
	uint64_t page;
	uint32_t image; /* 1 + its number */
} code[1 << CODE_BITS];
static uint32_t n_code;
static FILE *code_sink;

static void keep_code(uint32_t image, uint64_t address)
{
	struct {
		uint64_t image, page;
		uint8_t bytes[PAGE];
	} record = { image, address & ~(uint64_t)(PAGE - 1), { 0 } };
	size_t i = hash(record.page, image, CODE_BITS);

	for (; code[i].image; i = (i + 1) % (1 << CODE_BITS))
		if (code[i].page == record.page && code[i].image == image + 1)
			return;
	if (n_code == MAX_CODE)
		return;
	n_code++;
	code[i].page = record.page;
	code[i].image = image + 1;
	if (cpu_memory_rw_debug(qemu_get_cpu(0), record.page, record.bytes, PAGE, false))
		return;
	if (!code_sink)
		code_sink = output(code_name);
	put(code_sink, code_name, &record, sizeof(record));
}

/* The pages of a function of the kernel. */
static void keep_function(uint64_t low)
{
	uint64_t high = low ? places_end(places_function(low)) : 0;

	for (uint64_t page = low & ~(uint64_t)(PAGE - 1); page < high; page += PAGE)
		keep_code(KERNEL_IMAGE, page);
}

/* At a program's first instruction the stack has the number of its arguments, and where each of them is. */
static void name_image(uint32_t image)
{
	size_t wide = places.kernel >> 32 ? 8 : 4;
	uint64_t at = 0;
	void *cpu = qemu_get_cpu(0);
	char *name = images[image];

	if (cpu_memory_rw_debug(cpu, isa_stack() + wide, &at, wide, false))
		at = 0;
	for (size_t i = 0; at && i < NAME - 1; i++)
		if (cpu_memory_rw_debug(cpu, at + i, name + i, 1, false) || !name[i])
			break;
	if (!*name)
		strcpy(name, "?");
}

static uint32_t new_image(void)
{
	return n_images < MAX_IMAGES ? n_images++ : 0;
}

/* -- threads ----------------------------------------------------------------------------------------------- */

/* New tasks that have not yet run: by whom they were made, and in which calls. */
static struct wake {
	uint64_t task;
	uint32_t parent, n;
	struct frame frame[FRAMES];
} wakes[WAKES];
static unsigned int woken, oldest;
static uint64_t next_task;
/* Of a new task, from the switch to it until it begins: what else is kept of its stack is a dead task's. */
static struct slot *coming;

static void on_wake(unsigned int cpu, void *data)
{
	unsigned int depth;
	const struct slot *slots = context_slots(&depth);
	const struct flow_of *lowest = slots[0].data;
	struct wake *wake;

	(void)cpu;
	(void)data;
	if (!regions[KIND_WORKLOAD].begun)
		return;
	wake = &wakes[woken++ % WAKES];
	wake->task = places.kernel >> 32 ? isa_first_argument() : (uint32_t)isa_first_argument();
	wake->parent = wake->n = 0;
	if (!lowest || slots[0].fresh)
		return;
	wake->parent = lowest->thread;
	wake->n = lowest->n;
	memcpy(wake->frame, lowest->frame, lowest->n * sizeof(wake->frame[0]));
}

/* By the task's own name, or where that is not known the one that waits longest; NULL: it is not new. */
static struct wake *wake_of(uint64_t task)
{
	if (woken - oldest > WAKES)
		oldest = woken - WAKES;
	while (oldest != woken && !wakes[oldest % WAKES].task)
		oldest++;
	for (unsigned int i = oldest; i != woken; i++) {
		struct wake *wake = &wakes[i % WAKES];

		if (wake->task && (!task || wake->task == task))
			return wake;
	}
	return NULL;
}

static void on_switch(unsigned int cpu, void *data)
{
	unsigned int depth;

	(void)cpu;
	(void)data;
	next_task = isa_next_task();
	coming = next_task && wake_of(next_task) ? context_slots(&depth) : NULL;
	if (coming)
		coming->fresh = true;
}

static void on_fork(unsigned int cpu, void *data)
{
	unsigned int depth;
	struct slot *slots = context_slots(&depth);

	(void)cpu;
	(void)data;
	if (slots == coming)
		slots->fresh = false; /* it has begun already */
	coming = NULL;
}

static struct flow_of *flow_in(struct slot *slot)
{
	if (!slot->data) {
		slot->data = calloc(1, sizeof(struct flow_of));
		if (!slot->data)
			die("no memory");
		slot->fresh = true;
	}
	return slot->data;
}

static uint32_t root_of(uint32_t thread)
{
	return node_of(0, THREAD, thread | (uint64_t)threads[thread].image << 32);
}

static uint32_t node_now(const struct flow_of *of)
{
	return of->n ? of->frame[of->n - 1].node : of->base;
}

/* A thread begins below the calls in which it was made: they are its own now. */
static void begin_thread(struct slot *slot)
{
	struct flow_of *new = flow_in(slot);
	struct wake *wake;

	if (!slot->fresh)
		return;
	wake = wake_of(next_task);
	slot->fresh = false;
	new->thread = n_threads < MAX_THREADS ? n_threads++ : 0;
	new->n = 0;
	if (wake && new->thread)
		threads[new->thread] = (struct thread){ wake->parent, threads[wake->parent].image };
	new->base = root_of(new->thread);
	for (; wake && new->n < wake->n; new->n++) {
		struct frame frame = wake->frame[new->n];
		const struct node *node = &nodes[frame.node];

		frame.node = node_of(node_now(new), node->what, node->target);
		new->frame[new->n] = frame;
	}
	if (wake)
		wake->task = 0;
	new->ended = FLOW_ON;
	new->stub = false;
}

static void on_exec(unsigned int cpu, void *data)
{
	unsigned int depth;
	struct slot *slots = context_slots(&depth);
	struct flow_of *lowest;

	(void)cpu;
	(void)data;
	begin_thread(&slots[0]);
	lowest = slots[0].data;
	threads[lowest->thread].image = new_image();
	lowest->base = root_of(lowest->thread);
	lowest->n = 0;
	lowest->ended = FLOW_ON;
	if (counting && !program)
		program = lowest->thread;
}

/* -- flows ------------------------------------------------------------------------------------------------- */

/* The frame that the guest runs in is another: begin its flow, below the one that it came from, or go on in it. */
static void change_flow(void)
{
	static const enum what begun[CONTEXTS] = { SYSTEM_CALL, INTERRUPT, SOFTIRQ, EXCEPTION, NMI, CALL };
	unsigned int depth;
	struct slot *slots = context_slots(&depth);
	struct flow_of *lowest;

	begin_thread(&slots[0]);
	lowest = slots[0].data;
	flow = lowest;
	if (slots == coming)
		depth = 0;
	for (unsigned int i = 1; i <= depth; i++) {
		enum what what = begun[context_now()];
		uint32_t below = what == INTERRUPT || what == NMI ? root_of(lowest->thread) : node_now(flow);
		struct flow_of *deeper = flow_in(&slots[i]);

		if (slots[i].fresh) {
			slots[i].fresh = false;
			deeper->thread = lowest->thread;
			deeper->base = node_of(below, what, what == SYSTEM_CALL ? isa_system_call() : 0);
			nodes[deeper->base].calls += counting;
			deeper->n = 0;
			deeper->ended = FLOW_ON;
			deeper->stub = false;
		}
		flow = deeper;
	}
	turns = context_turns();
}

static bool near(uint64_t stack, uint64_t other, bool user)
{
	uint64_t apart = stack > other ? stack - other : other - stack;

	return apart < (user ? USER_STACK : places.stack_bytes);
}

static void pop(uint64_t stack, bool user, bool equal)
{
	while (flow->n) {
		const struct frame *top = &flow->frame[flow->n - 1];

		if (top->stack > stack || (top->stack == stack && !equal) || !near(top->stack, stack, user))
			return;
		flow->n--;
	}
}

static void called(const struct block *block)
{
	uint64_t stack = isa_stack();
	uint32_t node;

	pop(stack, block->user, true);
	if (flow->n == FRAMES) {
		lost_nodes += counting;
		return;
	}
	node = node_of(node_now(flow), CALL, block->user ? block->address : block->code);
	nodes[node].calls += counting;
	flow->frame[flow->n++] = (struct frame){ stack, flow->next, node };
	flow->stub = block->stub || block->thunk;
}

/* What was called was a stub, and this is where it jumped to. */
static void jumped_on(const struct block *block)
{
	struct frame *top = &flow->frame[flow->n - 1];

	nodes[top->node].calls -= counting && nodes[top->node].calls;
	top->node = node_of(nodes[top->node].parent, CALL, block->user ? block->address : block->code);
	nodes[top->node].calls += counting;
	flow->stub = block->stub || block->thunk;
}

static void turn(const struct block *block)
{
	enum flow ended = flow->ended;
	uint32_t n = flow->n;

	flow->ended = FLOW_ON;
	if (flow->stub && block->thunk)
		return; /* its own call and return are tricks */
	if (block->address == flow->from)
		return; /* it did not go on there: it faulted, and is begun again */
	if (ended == FLOW_CALL && !flow->stub) {
		called(block);
		return;
	}
	if (ended == FLOW_RETURN) {
		pop(isa_stack(), block->user, !isa_call_pushes);
		/* The kernel's error_entry leaves registers on the stack below the place that it returns to. */
		if (n && flow->n == n && flow->frame[n - 1].site == block->address)
			flow->n--;
		if (flow->n != n)
			flow->stub = false;
	}
	if (flow->stub && flow->n)
		jumped_on(block);
}

static struct leaf *leaf_of(uint32_t node, uint32_t context, const struct block *block)
{
	size_t i = hash(block->code, (uint64_t)node << 3 | context, LEAF_BITS);

	for (; leaf_at[i]; i = (i + 1) % (1 << LEAF_BITS)) {
		struct leaf *at = &leaves[leaf_at[i]];

		if (at->code == block->code && at->node == node && at->context == context)
			return at;
	}
	/* The last places are for code of whole threads: by function the counts are exact in any case. */
	if (n_leaves >= MAX_LEAVES - MAX_LEAVES / 8 && node != root_of(flow->thread)) {
		lost_nodes += counting;
		return leaf_of(root_of(flow->thread), context, block);
	}
	if (n_leaves == MAX_LEAVES) {
		lost_leaves += counting;
		return &leaves[0];
	}
	if (block->user)
		keep_code(threads[flow->thread].image, block->address);
	else
		keep_function(block->code);
	leaves[n_leaves] = (struct leaf){ .code = block->code, .node = node, .context = context };
	return &leaves[leaf_at[i] = n_leaves++];
}

static void book(void)
{
	if (leaf)
		leaf->instructions += ticks - booked;
	booked = ticks;
}

static void on_block(unsigned int cpu, void *data)
{
	struct block *block = data;
	bool whole = before && ticks - booked >= before->n;
	uint32_t node, context;

	(void)cpu;
	if (!regions[KIND_WORKLOAD].begun)
		return; /* the boot */
	book();
	if (flow) {
		flow->ended = whole ? before->ends : FLOW_ON;
		flow->from = before ? before->last : 0;
		flow->next = before ? before->next : 0;
	}
	before = block;
	context = block->user ? IN_USER : context_now();
	if (block->leaves) { /* the frame is gone before this is called, and yet the instruction is its last */
		struct slot *slot;

		context = context_left(&slot);
		if (slot->data && !slot->fresh)
			flow = slot->data;
	} else if (turns != context_turns()) {
		change_flow();
	}
	if (flow && (flow->ended != FLOW_ON || flow->stub))
		turn(block);
	if (block->user && !images[threads[flow->thread].image][0] && threads[flow->thread].image)
		name_image(threads[flow->thread].image);
	node = node_now(flow);
	if (!block->leaf || block->node != node || block->context != context) {
		block->leaf = leaf_of(node, context, block);
		block->node = node;
		block->context = context;
	}
	leaf = block->leaf;
}

/* -- translation ------------------------------------------------------------------------------------------- */

static struct block *part; /* that is being translated */
static bool only_stub;
static struct {
	struct qemu_plugin_insn *insn;
	uint32_t n;
	bool more;
} group; /* as in functions.c */

static void flush(void)
{
	if (group.n)
		count_inline(group.insn, &ticks, group.n);
	group.n = 0;
}

static void begin_part(const struct instruction *instruction, uint64_t code)
{
	part = calloc(1, sizeof(*part));
	if (!part)
		die("no memory");
	part->address = instruction->address;
	part->code = code;
	part->user = instruction->address < places.kernel;
	part->leaves = !part->user && context_leaves(instruction);
	for (size_t i = 0; !part->user && i < places.n_thunks; i++)
		part->thunk |= code >= places.thunk[i].low && code < places.thunk[i].high;
	only_stub = true;
	flush();
	qemu_plugin_register_vcpu_insn_exec_cb(instruction->insn, on_block, QEMU_PLUGIN_CB_NO_REGS, part);
}

static void call_at(uint64_t place, const struct instruction *instruction, exec_cb *cb)
{
	if (place && place == instruction->address)
		qemu_plugin_register_vcpu_insn_exec_cb(instruction->insn, cb, QEMU_PLUGIN_CB_NO_REGS, NULL);
}

static void translate(const struct instruction *instruction)
{
	bool user = instruction->address < places.kernel;
	uint64_t function = user ? instruction->address : function_of(instruction->address);

	if (!user) {
		call_at(places.switch_to, instruction, on_switch);
		call_at(places.fork, instruction, on_fork);
		call_at(places.wake, instruction, on_wake);
		call_at(places.exec_done, instruction, on_exec);
	}
	if (instruction->first || !part || (!user && function != part->code))
		begin_part(instruction, function);
	part->n++;
	part->last = instruction->address;
	part->next = instruction->address + instruction->size;
	part->ends = isa_flow(instruction->code, instruction->size);
	part->stub = only_stub && part->ends == FLOW_JUMP;
	only_stub = only_stub && isa_before_stub_jump(instruction->code, instruction->size);
	if (!group.n || !group.more) {
		flush();
		group.insn = instruction->insn;
	}
	group.n++;
	group.more = isa_cannot_fail(instruction->code, instruction->size);
}

/* -- regions ------------------------------------------------------------------------------------------------- */

static void on_region(unsigned int cpu, enum kind kind, bool begin)
{
	FILE *sink;

	(void)cpu;
	if (kind != KIND_LAP || regions[KIND_LAP].begun > 1)
		return;
	book();
	counting = begin;
	if (begin) {
		for (uint32_t i = 0; i < n_nodes; i++)
			nodes[i].calls = 0;
		for (uint32_t i = 0; i < n_leaves; i++)
			leaves[i].instructions = 0;
		return;
	}
	sink = output(nodes_name);
	put(sink, nodes_name, nodes, n_nodes * sizeof(nodes[0]));
	output_close(sink, nodes_name);
	sink = output(leaves_name);
	for (uint32_t i = 0; i < n_leaves; i++)
		if (leaves[i].instructions)
			put(sink, leaves_name, &leaves[i], sizeof(leaves[0]));
	output_close(sink, leaves_name);
}

static void finish(void)
{
	if (!code_sink)
		code_sink = output(code_name);
	output_close(code_sink, code_name);
}

static void report(FILE *json)
{
	fprintf(json, " \"paths\": {\"program\": %" PRIu32 ", \"lost_calls\": %" PRIu64 ", \"lost_code\": %" PRIu64, program,
		lost_nodes, lost_leaves);
	fputs(",\n  \"threads\": [", json);
	for (uint32_t i = 0; i < n_threads; i++)
		fprintf(json, "%s[%" PRIu32 ", %" PRIu32 "]", i ? ", " : "", threads[i].parent, threads[i].image);
	fputs("],\n  \"images\": [", json); /* names may be any bytes */
	for (uint32_t i = 0; i < n_images; i++) {
		fprintf(json, "%s\"", i ? ", " : "");
		for (const char *at = images[i]; *at; at++)
			fprintf(json, "%02x", (unsigned char)*at);
		fputs("\"", json);
	}
	fputs("]},\n", json);
}

const struct oracle_mode paths_mode = {
	.name = "paths",
	.lacks = registers_lacks,
	.translate = translate,
	.flush = flush,
	.region = on_region,
	.finish = finish,
	.report = report,
};
