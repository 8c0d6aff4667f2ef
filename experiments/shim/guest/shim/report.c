// SPDX-License-Identifier: MIT
#include "krepro.h"
#include "report.h"

void print_text(FILE *out, const char *text)
{
	if (!text) {
		fputs("null", out);
		return;
	}
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		if ((unsigned char)*text >= ' ')
			fputc(*text, out);
	}
	fputc('"', out);
}

void print_signal(FILE *out, const struct signal_source *signal)
{
	fputs("{\"name\": ", out);
	print_text(out, signal->name);
	fprintf(out, ", \"source\": \"%s\", \"scope\": \"%s\"", source_names[signal->source],
		signal->source == SOURCE_PMU ? "observer" : signal->source == SOURCE_MEMORY ? "memory" : "cpu");
	if (signal->expected)
		fprintf(out, ", \"known_expected\": %llu, \"known_counted\": %llu, \"known_error\": %.9f",
			(unsigned long long)signal->expected, (unsigned long long)signal->counted,
			(double)signal->counted / (double)signal->expected - 1);
	else
		fputs(", \"known_expected\": null, \"known_counted\": null, \"known_error\": null", out);
	fputs(", \"reason\": ", out);
	print_text(out, signal->reason[0] ? signal->reason : NULL);
	fputc('}', out);
}

static void print_signals(FILE *out, const char *name, const struct signal_source *signals, int n)
{
	fprintf(out, " \"%s\": [", name);
	for (int i = 0; i < n; i++) {
		fputs(i ? ",\n  " : "", out);
		print_signal(out, &signals[i]);
	}
	fputs("]", out);
}

static void print_count(FILE *out, const char *name, uint64_t count)
{
	fprintf(out, " \"%s\": %llu,\n", name, (unsigned long long)count);
}

void report(FILE *out, const struct shim *shim, const struct answer *answer)
{
	const struct bounds *bounds = &shim->bounds;
	struct ring none = { 0 }, *samples = shim->samples ? shim->samples : &none,
		    *switches = shim->switches ? shim->switches : &none;
	const double hz = answer->hz;

	fprintf(out, "{\"version\": 1, \"program\": \"shim\", \"observer_cpu\": %d, \"cpu\": %d,\n",
		answer->observer_cpu, shim->cpu);
	fprintf(out, " \"period_cycles\": %llu, \"period_ns\": %.3f, \"min_window_cycles\": %llu, \"min_window_ns\": %.3f,\n",
		(unsigned long long)shim->period, (double)shim->period / hz * 1e9, (unsigned long long)shim->min_window,
		(double)shim->min_window / hz * 1e9);
	fprintf(out, " \"bounds\": [\"%u/%u\", \"%u/%u\"],\n ", bounds->low.up, bounds->low.down, bounds->high.up,
		bounds->high.down);
	clock_print_both(out, answer->begin, answer->end);
	fputs(",\n", out);
	print_count(out, "samples", shim->n_samples);
	print_count(out, "windows", shim->windows);
	print_count(out, "trusted", shim->trusted);
	print_count(out, "untrusted", shim->windows - shim->trusted);
	print_count(out, "zero", shim->zero);
	print_count(out, "switches_seen", shim->seen);
	print_count(out, "switches_missed", shim->missed);
	print_count(out, "switches_slot", shim->last_begun - shim->first_begun);
	print_count(out, "torn", shim->torn);
	print_count(out, "injected", shim->n_delays);
	print_count(out, "injected_windows", shim->delayed_windows);
	print_count(out, "injected_trusted", shim->delayed_trusted);
	print_count(out, "injected_long", shim->delayed_long);
	print_count(out, "samples_written", ring_count(samples));
	print_count(out, "samples_lost", samples->lost);
	print_count(out, "samples_skipped", samples->skipped);
	print_count(out, "switches_written", ring_count(switches));
	print_count(out, "switches_lost", switches->lost);
	print_count(out, "switches_skipped", switches->skipped);
	print_count(out, "host_readings", (uint64_t)shim->host.n);
	print_count(out, "host_lost", shim->host.lost);
	fputs(" \"ppid\": ", out);
	print_text(out, shim->line ? ppid_source() : NULL);
	fputs(", \"ppid_reason\": ", out);
	print_text(out, answer->ppid_reason);
	fputs(",\n \"host_reason\": ", out);
	print_text(out, answer->host_reason);
	fputs(",\n", out);
	print_signals(out, "signals", shim->signals, shim->n_signals);
	fputs(",\n", out);
	print_signals(out, "refused", answer->refused, answer->n_refused);
	fputs("}\n", out);
}

void write_threads(FILE *out, const struct shim *shim)
{
	fputs("pid,tgid,cycles,windows,trusted,trusted_cycles", out);
	for (int i = 0; i < shim->n_signals; i++)
		fprintf(out, ",%s", shim->signals[i].name);
	fputc('\n', out);
	for (int i = 0; i < shim->n_threads; i++) {
		const struct by_thread *t = &shim->threads[i];

		fprintf(out, "%d,%d,%llu,%llu,%llu,%llu", ppid_pid(t->ids), ppid_tgid(t->ids),
			(unsigned long long)t->cycles, (unsigned long long)t->windows, (unsigned long long)t->trusted,
			(unsigned long long)t->trusted_cycles);
		for (int k = 0; k < shim->n_signals; k++)
			fprintf(out, ",%llu", (unsigned long long)t->signals[k]);
		fputc('\n', out);
	}
}
