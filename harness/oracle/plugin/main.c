// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The oracle: exact ground truth about a guest, taken from outside it by a QEMU TCG plugin.
 *
 * Arguments: out=FOLDER, places=FILE (the guest's kernel, see places.c), modes=WORD+WORD..., seed=N,
 * period_ns=N (mean of the sampler's), shift=N (of icount; -1 without it), counters=FILE (memory of the device).
 *
 * What is measured lies between marks that guest programs execute; their kinds are in oracle.h. Everything goes
 * to files in FOLDER, oracle.json last: without it nothing else there counts.
 *
 * This file only wires: it reads the arguments, chooses the modes and passes on what QEMU calls.
 */
#include "isa.h"
#include "oracle.h"
#include "output.h"
#include "places.h"
#include "region.h"
#include "registers.h"
#include "timer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

/* In the order of their parts of oracle.json. */
static const struct oracle_mode *const modes[] = {
	&functions_mode, &paths_mode, &pages_mode, &locks_mode, &counters_mode, &sampler_mode, &nmi_mode,
};
enum { MODES = sizeof(modes) / sizeof(modes[0]) };
/* oracle.json's list of modes has another order, which format 1 keeps. */
static const unsigned int listed[MODES] = { 0, 2, 5, 6, 3, 4, 1 };

static bool wanted[MODES];
static const char *absent[MODES]; /* why a wanted mode is not there; NULL: it is */
static const struct oracle_mode *on[MODES];
static unsigned int n_on;
static const char *folder, *description; /* of the kernel */
static struct settings settings = { .seed = 1, .period_ns = 1000000, .shift = -1 };

/* Of every mode that is on. */
#define CALL(callback, ...)                                    \
	do {                                                   \
		for (unsigned int at = 0; at < n_on; at++)     \
			if (on[at]->callback)                  \
				on[at]->callback(__VA_ARGS__); \
	} while (0)

static void on_mark(unsigned int cpu, void *data)
{
	uintptr_t word = (uintptr_t)data;
	struct mark mark = { (enum kind)(word >> 8), (enum operation)(word & 0xff) };

	timer_start();
	if (!mark_executed(cpu, mark))
		return;
	if (mark.operation == OP_BEGIN || mark.operation == OP_END)
		CALL(region, cpu, mark.kind, mark.operation == OP_BEGIN);
	else
		CALL(command, mark.kind, mark.operation);
}

static void on_cpu(qemu_plugin_id_t id, unsigned int cpu)
{
	(void)id;
	CALL(resume, cpu);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	enum { PAGE = 1 << PAGE_BITS };
	size_t n = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t room[LONGEST_INSN];
		struct instruction instruction = {
			.insn = insn,
			.address = qemu_plugin_insn_vaddr(insn),
			.code = insn_code(insn, room),
			.size = qemu_plugin_insn_size(insn),
			.first = i == 0,
		};
		struct mark mark;

		if (mark_of(&instruction, &mark)) { /* itself not part of any region */
			uintptr_t word = (uintptr_t)mark.kind << 8 | mark.operation;

			CALL(flush);
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, QEMU_PLUGIN_CB_NO_REGS, (void *)word);
			continue;
		}
		/*
		 * An instruction that crosses into the next page ends its block before itself, yet QEMU shows it
		 * (cut short, its callbacks never run): it must not be counted along with those before it.
		 */
		if (i == n - 1 && (instruction.address & (PAGE - 1)) + LONGEST_INSN > PAGE)
			CALL(flush);
		CALL(translate, &instruction);
	}
	CALL(flush);
	CALL(block, tb); /* last: what it counts is counted after the callbacks of the block's first instruction */
}

static void on_end(qemu_plugin_id_t id, void *data)
{
	FILE *json;
	bool first = true;

	(void)id;
	(void)data;
	CALL(finish);
	json = output("oracle.json");
	fputs("{\"format\": 1,\n \"modes\": {", json);
	for (unsigned int i = 0; i < MODES; i++) {
		unsigned int mode = listed[i];

		if (!wanted[mode])
			continue;
		fprintf(json, "%s\"%s\": ", first ? "" : ", ", modes[mode]->name);
		if (absent[mode])
			fprintf(json, "\"%s\"", absent[mode]);
		else
			fputs("null", json);
		first = false;
	}
	fputs("},\n", json);
	region_report(json);
	CALL(report, json);
	fprintf(json, " \"shift\": %d, \"seed\": %" PRIu64 ", \"period_ns\": %" PRIu64 "}\n", settings.shift,
		settings.seed, settings.period_ns);
	output_close(json, "oracle.json");
}

static void want(char *words)
{
	for (char *rest = NULL, *word = strtok_r(words, "+", &rest); word; word = strtok_r(NULL, "+", &rest)) {
		unsigned int i = 0;

		while (i < MODES && strcmp(word, modes[i]->name))
			i++;
		if (i == MODES)
			die("unknown mode %s", word);
		wanted[i] = true;
	}
}

static void choose(const struct qemu_info *info)
{
	bool system = info->system_emulation && !strcmp(info->target_name, isa_target);

	settings.cpus = (unsigned int)info->system.smp_vcpus;
	for (unsigned int i = 0; i < MODES; i++) {
		if (!wanted[i])
			continue;
		if (modes[i]->lacks)
			absent[i] = modes[i]->lacks(&settings);
		if (!absent[i] && !system)
			absent[i] = "QEMU emulates another system";
		if (!absent[i] && !modes[i]->any_cpus && settings.cpus != 1)
			absent[i] = "the machine has several CPUs; the oracle counts exactly on one";
		if (!absent[i])
			on[n_on++] = modes[i];
	}
}

static void parse(char *argument)
{
	char *value = strchr(argument, '=');

	if (!value)
		die("argument %s has no value", argument);
	*value++ = '\0';
	if (!strcmp(argument, "out"))
		folder = value;
	else if (!strcmp(argument, "places"))
		description = value;
	else if (!strcmp(argument, "counters"))
		settings.counters = value;
	else if (!strcmp(argument, "modes"))
		want(value);
	else if (!strcmp(argument, "seed"))
		settings.seed = strtoull(value, NULL, 10);
	else if (!strcmp(argument, "period_ns"))
		settings.period_ns = strtoull(value, NULL, 10);
	else if (!strcmp(argument, "shift"))
		settings.shift = atoi(value);
	else
		die("unknown argument %s", argument);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		parse(argv[i]);
	if (!folder || !description || settings.period_ns < 1000)
		die("needs out=, places=, and a period_ns of at least 1000");
	output_folder(folder);
	places_read(description);
	registers_init();
	choose(info);
	CALL(init, &settings);
	qemu_plugin_register_vcpu_resume_cb(id, on_cpu);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, on_end, NULL);
	return 0;
}
