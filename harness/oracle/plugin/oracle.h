/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a mode of the oracle is: a table of callbacks. main.c calls them, and alone knows all modes. A mode uses the
 * shared parts (places, registers, regions, contexts, the timer, output) and no other mode.
 */
#ifndef KREPRO_ORACLE_H
#define KREPRO_ORACLE_H

#include "qemu.h"

#include <stdio.h>

/* krepro-roi's marks: on x86 a 7-byte nopl whose displacement is MARK | kind << 8 | operation; of others see isa.h. */
#define MARK 0x6b720000u

enum operation { OP_BEGIN, OP_END, OP_SELECT, OP_DESELECT, OP_SELECT_EXEC, OP_HOST, OPERATIONS };
/* A region of each kind may be open at a time, whatever the others do. */
enum kind { KIND_WORKLOAD, KIND_CHECK, KIND_LAP, KIND_WINDOW, KINDS };

/* The plugin's arguments, and what QEMU says of the machine. */
struct settings {
	uint64_t seed, period_ns;
	int shift;	      /* of icount; -1 without it */
	const char *counters; /* memory of the device, or NULL */
	unsigned int cpus;
};

/* An instruction that is being translated. */
struct instruction {
	struct qemu_plugin_insn *insn;
	uint64_t address;
	const uint8_t *code;
	size_t size;
	bool first; /* of its block */
};

/* Callbacks may be NULL, but for report. All but lacks are called only where the mode is wanted and possible. */
struct oracle_mode {
	const char *name;
	bool any_cpus; /* also exact where the machine has several */
	/* Why it is not possible here, or NULL; changes nothing. */
	const char *(*lacks)(const struct settings *settings);
	void (*init)(const struct settings *settings);
	void (*resume)(unsigned int cpu); /* in the CPU's thread, when it goes on */
	void (*block)(struct qemu_plugin_tb *tb);
	void (*translate)(const struct instruction *instruction);
	/* Nothing after this may be counted with what came before: at a mark and at the end of a block. */
	void (*flush)(void);
	void (*region)(unsigned int cpu, enum kind kind, bool begin);
	void (*command)(enum kind kind, enum operation operation); /* the other operations */
	void (*finish)(void);					   /* its files are whole after it */
	void (*report)(FILE *json);				   /* its part of oracle.json */
};

extern const struct oracle_mode functions_mode, paths_mode, pages_mode, locks_mode, counters_mode, sampler_mode, nmi_mode;

#endif
