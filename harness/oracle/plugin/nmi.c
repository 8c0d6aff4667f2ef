// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * NMIs to the guest at moments of a jittered timer of its own, while a workload runs and in a collector's window: the
 * ideal sampler's moments are others, so that the two can be compared.
 *
 * nmis.bin: 64 bits each of virtual time and interrupted address.
 */
#include "isa.h"
#include "oracle.h"
#include "output.h"
#include "region.h"
#include "registers.h"
#include "timer.h"

#include <inttypes.h>

static const char name[] = "nmis.bin";
static uint64_t n_sent, n_refused;
static FILE *sink;

static void send_nmi(int64_t now_ns)
{
	uint64_t record[2] = { (uint64_t)now_ns };
	void *error = NULL;

	if (!region_measured())
		return;
	record[1] = isa_ip();
	nmi_monitor_handle(0, &error);
	if (error) {
		n_refused++;
		if (error_free)
			error_free(error);
		return;
	}
	n_sent++;
	put(sink, name, record, sizeof(record));
}

static const char *lacks(const struct settings *settings)
{
	const char *reason = timer_lacks(settings);

	if (!isa_has_nmis)
		return "this instruction set has no NMIs";
	if (!nmi_monitor_handle)
		return "this QEMU does not export its NMIs";
	return reason || registers_known() ? reason : "this QEMU does not export its registers";
}

static void init(const struct settings *settings)
{
	sink = output(name); /* there even when no mark ever comes */
	timer_add(settings, 1, settings->period_ns, send_nmi);
}

static void finish(void)
{
	output_close(sink, name);
}

static void report(FILE *json)
{
	fprintf(json, " \"nmi\": {\"sent\": %" PRIu64 ", \"refused\": %" PRIu64 "},\n", n_sent, n_refused);
}

const struct oracle_mode nmi_mode = {
	.name = "nmi",
	.lacks = lacks,
	.init = init,
	.finish = finish,
	.report = report,
};
