// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The ideal profiler: a timer on the virtual clock with a jittered period, which fires between two instructions,
 * interrupts on or off, and reads where the CPU is.
 *
 * samples.bin: per sample 64 bits each of virtual time, address, and region | window << 16 | context << 32
 * | interrupts on << 40 | CPU halted << 41 | lap << 42. Region, window and lap: 0 none, else its number plus one.
 */
#include "context.h"
#include "isa.h"
#include "oracle.h"
#include "output.h"
#include "places.h"
#include "region.h"
#include "registers.h"
#include "timer.h"

#include <inttypes.h>

enum { MAX_HALTS = 64 };
static const char name[] = "samples.bin";

static uint64_t behind_hlt[MAX_HALTS];
static size_t n_halts;
static uint64_t n_samples;
static FILE *sink;

static uint64_t number(enum kind kind)
{
	return regions[kind].open ? regions[kind].begun : 0;
}

static void sample(int64_t now_ns)
{
	uint64_t ip, record[3];
	bool idle = false;

	if (!region_measured())
		return;
	ip = isa_ip();
	for (size_t i = 0; i < n_halts; i++)
		idle |= behind_hlt[i] == ip;
	record[0] = (uint64_t)now_ns;
	record[1] = ip;
	record[2] = number(KIND_WORKLOAD) | number(KIND_WINDOW) << 16 |
		    (uint64_t)(ip < places.kernel ? IN_USER : context_now()) << 32 |
		    (uint64_t)isa_interrupts_on() << 40 | (uint64_t)idle << 41 | number(KIND_LAP) << 42;
	put(sink, name, record, sizeof(record));
	n_samples++;
}

static const char *lacks(const struct settings *settings)
{
	const char *reason = timer_lacks(settings);

	return reason || registers_known() ? reason : "this QEMU does not export its registers";
}

static void init(const struct settings *settings)
{
	sink = output(name); /* there even when no mark ever comes */
	timer_add(settings, 0, settings->period_ns, sample);
}

static void translate(const struct instruction *instruction)
{
	uint64_t behind = instruction->address + instruction->size;

	if (instruction->address < places.kernel || !isa_halts(instruction->code, instruction->size))
		return;
	for (size_t i = 0; i < n_halts; i++)
		if (behind_hlt[i] == behind)
			return;
	if (n_halts < MAX_HALTS)
		behind_hlt[n_halts++] = behind;
}

static void finish(void)
{
	output_close(sink, name);
}

static void report(FILE *json)
{
	fprintf(json, " \"sampler\": {\"samples\": %" PRIu64 "},\n", n_samples);
}

const struct oracle_mode sampler_mode = {
	.name = "sampler",
	.lacks = lacks,
	.init = init,
	.translate = translate,
	.finish = finish,
	.report = report,
};
