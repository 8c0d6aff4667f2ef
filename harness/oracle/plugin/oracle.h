/* The oracle's parts and what they share. One CPU: with more of them all modes but counters are absent. */
#ifndef KREPRO_ORACLE_H
#define KREPRO_ORACLE_H

#include "qemu.h"

#include <stdio.h>

/* krepro-roi's marks: a 7-byte nopl whose displacement is MARK | kind << 8 | operation. */
#define MARK 0x6b720000u

enum operation { OP_BEGIN, OP_END, OP_SELECT, OP_DESELECT, OP_SELECT_EXEC, OP_HOST, OPERATIONS };
/* A region of each kind may be open at a time, whatever the others do. */
enum kind { KIND_WORKLOAD, KIND_CHECK, KIND_LAP, KINDS };
enum context { IN_TASK, IN_INTERRUPT, IN_SOFTIRQ, IN_EXCEPTION, IN_NMI, IN_USER, CONTEXTS };
enum mode { MODE_FUNCTIONS, MODE_PAGES, MODE_SAMPLER, MODE_NMI, MODE_LOCKS, MODE_COUNTERS, MODES };

enum { MAX_FUNCTIONS = 1 << 17, MAX_PLACES = 4096, PAGE_BITS = 12 };

/* The guest's kernel as the host's reader describes it; addresses ascend. */
struct places {
	uint64_t functions[MAX_FUNCTIONS]; /* first bytes */
	size_t n_functions;
	uint64_t text_end, kernel;	   /* first byte behind the functions; first kernel address */
	struct entry {
		uint64_t low, high, step;
		enum context context;
	} entry[MAX_PLACES];
	size_t n_entries;
	struct range {
		uint64_t low, high;
	} returns, softirq;
	uint64_t task[16]; /* functions that only task context runs */
	size_t n_task;
	uint64_t switch_to, fork;
	uint64_t exec_begin, exec_done, exit_group, exit_memory;
	uint64_t stack_bytes, cr3_mask;
	uint64_t lock[64];
	size_t n_locks;
};

extern struct places places;
extern bool wanted[MODES];
extern const char *absent[MODES]; /* why a wanted mode is not there; NULL: it is */
extern uint64_t ticks;		  /* instructions executed, where a mode needs them as a clock */
extern uint64_t seed, period_ns;
extern int shift; /* of icount; -1 without it */
extern unsigned int region[KINDS]; /* regions begun so far, by kind */
extern bool open_region[KINDS];

static inline bool on(enum mode mode)
{
	return wanted[mode] && !absent[mode];
}

/* Any register is true between two instructions outside a block; general ones also at a block's first instruction,
 * and what only helpers write (CR3, CS, RFLAGS.IF) everywhere. */
bool registers_known(void);
uint64_t read_register(int number); /* of the first CPU */
uint64_t random_u64(uint64_t *state);
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
FILE *output(const char *name);

/*
 * Self-checks: what was counted of krepro-roi's known work. It is done several times before each workload, and the
 * least disturbed counts: the least of them. One number a workload, so that none hides another.
 */
struct check {
	uint64_t least[64];
	unsigned int n; /* workloads begun */
};
void check_done(struct check *check, uint64_t counted);
void check_report(const struct check *check, FILE *json);

/* functions.c */
void functions_translate(struct qemu_plugin_insn *insn, uint64_t address, const uint8_t *code, size_t size);
void functions_flush(void); /* at the end of a block, and before a mark */
void functions_region(enum kind kind, bool begin);
enum context functions_context(void);
void functions_report(FILE *sink);
void functions_finish(void);

/* locks.c */
void locks_translate(struct qemu_plugin_insn *insn, uint64_t address, bool first); /* of its block */
void locks_region(enum kind kind, bool begin);
void locks_report(FILE *sink);
void locks_finish(void);

/* pages.c */
void pages_translate(struct qemu_plugin_insn *insn, uint64_t address, const uint8_t *code, size_t size);
void pages_select(bool select, bool check);
void pages_select_exec(void);
void pages_report(FILE *sink);
void pages_finish(void);
void pages_anchor(int64_t now_ns);

/* counters.c */
const char *counters_open(const char *path, unsigned int cpus); /* why there can be none, or NULL */
void counters_cpu(unsigned int cpu); /* in its thread, when it goes on */
void counters_host(void);
void counters_translate(struct qemu_plugin_tb *tb);
void counters_region(unsigned int cpu, enum kind kind, bool begin);
void counters_report(FILE *sink);

/* sampler.c */
void sampler_open(void);
void sampler_start(void);
void sampler_translate(uint64_t address, const uint8_t *code, size_t size);
void sampler_report(FILE *sink);
void sampler_finish(void);

#endif
