/*
 * shim: look at another CPU, from this one, as often as can be.
 *
 *   shim run [OPTION VALUE...]    sample until --seconds are over, or SIGINT or SIGTERM comes
 *   shim list [json]              which events there are, which not, and why
 *
 *   --cpu N              the CPU to look at (1)
 *   --observer-cpu N     the CPU to do it from (0)
 *   --seconds S          how long (1)
 *   --period P           fast, or time from sample to sample: 10us, 500ns, 3000cycles (fast)
 *   --min-window W       judge no window shorter than this (0)
 *   --bounds LOW,HIGH    trusted when end clocks over begin clocks lie between, inclusive (0.99,1.01)
 *   --event NAME         count this too: instructions, PERF_COUNT_HW_CACHE_MISSES, perf::CYCLES, r01c2; may be given often
 *   --signal NAME=FILE@OFFSET   read this 64-bit word too
 *   --out PREFIX         write PREFIX.shim.json, PREFIX.periods.csv, PREFIX.ids.csv; else the first to standard output
 *   --samples FILE       every window end; - is standard output
 *   --switches FILE      every change of the slot that was seen; -
 *   --limit N            so many records in each of the two, and no more (0: no limit)
 *   --ring N             so many records fit into each ring (65536)
 *   --drain MS           how often rings are emptied (20)
 *   --priority N         sample in front of all that has a lower one on the observer's CPU, SCHED_FIFO (0: as started). Rings
 *                        are then emptied at the end.
 *   --host MS            ask that often how the host ran both CPUs, into PREFIX.host.csv (0: never)
 *   --inject EVERY,NS    a test: delay about one in EVERY window ends, at random, by NS to twice NS between its clocks
 *   --seed N             of that
 *   --known-cpu N        a test: run the known loop of the oracle's counter on another CPU than the counter's
 */
#ifndef __x86_64__
#error this program is for x86_64
#endif
#define _GNU_SOURCE
#include <ctype.h>
#include <stdarg.h>

#include "shim.h"

enum { MAX_DELAYS = 65536 };

struct options {
	int cpu, observer_cpu, known_cpu;
	double seconds;
	const char *period, *min_window, *bounds, *out, *samples, *switches;
	const char *events[SIGNALS], *memory[SIGNALS];
	int n_events, n_memory;
	uint64_t limit, ring, drain, host, priority, inject_every, inject_ns, seed;
};

static struct shim shim;
static struct signal_source refused[2 * SIGNALS];
static int n_refused;

static _Noreturn void usage(const char *what, ...)
{
	va_list words;

	va_start(words, what);
	fprintf(stderr, "shim: ");
	vfprintf(stderr, what, words);
	fprintf(stderr, "; usage: shim run [OPTION VALUE...] | shim list [json]\n");
	va_end(words);
	exit(2);
}

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "shim: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t number(const char *option, const char *text, uint64_t most)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || !isdigit((unsigned char)*text) || *end || value > most)
		usage("%s %s: a number from 0 to %llu is wanted", option, text, (unsigned long long)most);
	return value;
}

/* A time in nanoseconds or cycles; which of the two is told by *is_cycles. */
static uint64_t duration(const char *option, const char *text, bool *is_cycles)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 }, { "cycles", 0 } };
	char *end;
	unsigned long long value;

	*is_cycles = false;
	if (!strcmp(text, "fast") || !strcmp(text, "0"))
		return 0;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (!errno && isdigit((unsigned char)*text) && value < 1000000000ull) {
		for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
			if (strcmp(end, units[i].unit))
				continue;
			*is_cycles = !units[i].ns;
			return *is_cycles ? value : value * units[i].ns;
		}
	}
	usage("%s %s: fast, or a time such as 500ns, 10us, 3000cycles", option, text);
}

static struct options read_options(int argc, char **argv)
{
	struct options o = { .cpu = 1, .known_cpu = -1, .seconds = 1, .period = "fast", .min_window = "0",
			     .bounds = "0.99,1.01", .ring = 65536, .drain = 20, .seed = 1 };

	for (int i = 2; i < argc; i += 2) {
		const char *name = argv[i], *value = argv[i + 1];
		char *end;

		if (!value)
			usage("%s: no value", name);
		if (!strcmp(name, "--cpu")) {
			o.cpu = (int)number(name, value, 4095);
		} else if (!strcmp(name, "--observer-cpu")) {
			o.observer_cpu = (int)number(name, value, 4095);
		} else if (!strcmp(name, "--known-cpu")) {
			o.known_cpu = (int)number(name, value, 4095);
		} else if (!strcmp(name, "--seconds")) {
			o.seconds = strtod(value, &end);
			if (end == value || *end || !(o.seconds > 0 && o.seconds <= 86400))
				usage("%s %s: seconds above 0, at most 86400", name, value);
		} else if (!strcmp(name, "--period")) {
			o.period = value;
		} else if (!strcmp(name, "--min-window")) {
			o.min_window = value;
		} else if (!strcmp(name, "--bounds")) {
			o.bounds = value;
		} else if (!strcmp(name, "--event")) {
			if (!event_named(value))
				usage("%s %s: no such event; see shim list", name, value);
			if (o.n_events + o.n_memory == SIGNALS)
				usage("%s %s: more than %d signals", name, value, SIGNALS);
			o.events[o.n_events++] = value;
		} else if (!strcmp(name, "--signal")) {
			if (o.n_events + o.n_memory == SIGNALS)
				usage("%s %s: more than %d signals", name, value, SIGNALS);
			o.memory[o.n_memory++] = value;
		} else if (!strcmp(name, "--out")) {
			o.out = value;
		} else if (!strcmp(name, "--samples")) {
			o.samples = value;
		} else if (!strcmp(name, "--switches")) {
			o.switches = value;
		} else if (!strcmp(name, "--limit")) {
			o.limit = number(name, value, UINT64_MAX);
		} else if (!strcmp(name, "--ring")) {
			o.ring = number(name, value, 1 << 24);
			if (!o.ring || o.ring & (o.ring - 1))
				usage("%s %s: a power of two is wanted", name, value);
		} else if (!strcmp(name, "--drain")) {
			o.drain = number(name, value, 10000);
		} else if (!strcmp(name, "--host")) {
			o.host = number(name, value, 10000);
		} else if (!strcmp(name, "--priority")) {
			o.priority = number(name, value, 99);
		} else if (!strcmp(name, "--seed")) {
			o.seed = number(name, value, UINT64_MAX);
		} else if (!strcmp(name, "--inject")) {
			const char *comma = strchr(value, ',');
			char every[24];

			if (!comma || (size_t)(comma - value) >= sizeof(every))
				usage("%s %s: EVERY,NS is wanted", name, value);
			snprintf(every, sizeof(every), "%.*s", (int)(comma - value), value);
			o.inject_every = number(name, every, 1 << 30);
			o.inject_ns = number(name, comma + 1, 1000000000);
			if (!o.inject_every || !o.inject_ns)
				usage("%s %s: both above 0", name, value);
		} else {
			usage("%s: no such option", name);
		}
	}
	return o;
}

static void refuse(const struct signal_source *signal)
{
	if (n_refused < 2 * SIGNALS)
		refused[n_refused++] = *signal;
}

static bool take(const struct signal_source *signal)
{
	if (signal->reason[0]) {
		refuse(signal);
		return false;
	}
	shim.signals[shim.n_signals++] = *signal;
	return true;
}

/* The PMU when it is proven; for instructions the oracle's counter then. */
static void open_event(const struct event *event, const struct options *o)
{
	static struct signal_source proof; /* instructions, by which the PMU is known */
	const bool is_instructions = event == &events[0];
	struct signal_source signal = { 0 };

	if (!proof.name[0]) {
		signal_pmu(&proof, &events[0]);
		if (!proof.reason[0])
			signal_check(&proof, o->observer_cpu);
	}
	if (is_instructions) {
		signal = proof;
	} else {
		signal_pmu(&signal, event);
		if (!signal.reason[0] && proof.reason[0])
			snprintf(signal.reason, sizeof(signal.reason), "the PMU is not to be trusted: %.120s",
				 proof.reason);
	}
	if (take(&signal) || !is_instructions)
		return;
	memset(&signal, 0, sizeof(signal));
	signal_oracle(&signal, o->cpu);
	if (!signal.reason[0])
		signal_check(&signal, o->known_cpu < 0 ? o->cpu : o->known_cpu);
	take(&signal);
}

/* JSON text out of messages, which may hold a user's file name. */
static void print_text(FILE *out, const char *text)
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

static void print_signal(FILE *out, const struct signal_source *signal)
{
	fputs("{\"name\": ", out);
	print_text(out, signal->name);
	fprintf(out, ", \"source\": \"%s\", \"scope\": \"%s\"", source_names[signal->source],
		signal->source == SOURCE_PMU ? "observer" : signal->source == SOURCE_ORACLE ? "cpu" : "memory");
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

static void report(FILE *out, const struct options *o, struct clock_pair a, struct clock_pair b, double hz,
		   const char *ppid_reason, const char *host_reason)
{
	const struct bounds *bounds = &shim.bounds;
	struct ring none = { 0 }, *samples = shim.samples ? shim.samples : &none,
		    *switches = shim.switches ? shim.switches : &none;

	fprintf(out, "{\"version\": 1, \"program\": \"shim\", \"observer_cpu\": %d, \"cpu\": %d,\n", o->observer_cpu,
		o->cpu);
	fprintf(out, " \"period_cycles\": %llu, \"period_ns\": %.3f, \"min_window_cycles\": %llu, \"min_window_ns\": %.3f,\n",
		(unsigned long long)shim.period, (double)shim.period / hz * 1e9, (unsigned long long)shim.min_window,
		(double)shim.min_window / hz * 1e9);
	fprintf(out, " \"bounds\": [\"%u/%u\", \"%u/%u\"],\n ", bounds->low.up, bounds->low.down, bounds->high.up,
		bounds->high.down);
	clock_print_both(out, a, b);
	fputs(",\n", out);
	print_count(out, "samples", shim.n_samples);
	print_count(out, "windows", shim.windows);
	print_count(out, "trusted", shim.trusted);
	print_count(out, "untrusted", shim.windows - shim.trusted);
	print_count(out, "zero", shim.zero);
	print_count(out, "switches_seen", shim.seen);
	print_count(out, "switches_missed", shim.missed);
	print_count(out, "switches_slot", shim.last_begun - shim.first_begun);
	print_count(out, "torn", shim.torn);
	print_count(out, "injected", shim.n_delays);
	print_count(out, "injected_windows", shim.delayed_windows);
	print_count(out, "injected_trusted", shim.delayed_trusted);
	print_count(out, "injected_long", shim.delayed_long);
	print_count(out, "samples_written", ring_count(samples));
	print_count(out, "samples_lost", samples->lost);
	print_count(out, "samples_skipped", samples->skipped);
	print_count(out, "switches_written", ring_count(switches));
	print_count(out, "switches_lost", switches->lost);
	print_count(out, "switches_skipped", switches->skipped);
	print_count(out, "host_readings", (uint64_t)shim.host.n);
	print_count(out, "host_lost", shim.host.lost);
	fputs(" \"ppid\": ", out);
	print_text(out, shim.line ? ppid_source() : NULL);
	fputs(", \"ppid_reason\": ", out);
	print_text(out, ppid_reason);
	fputs(",\n \"host_reason\": ", out);
	print_text(out, host_reason);
	fputs(",\n", out);
	print_signals(out, "signals", shim.signals, shim.n_signals);
	fputs(",\n", out);
	print_signals(out, "refused", refused, n_refused);
	fputs("}\n", out);
}

static FILE *open_out(const char *prefix, const char *what)
{
	char path[512];
	FILE *out;

	snprintf(path, sizeof(path), "%s.%s", prefix, what);
	out = fopen(path, "w");
	if (!out)
		fail(path);
	return out;
}

static void close_out(FILE *out)
{
	if (ferror(out) || fclose(out))
		fail("output");
}

static void write_threads(FILE *out)
{
	fputs("pid,tgid,cycles,windows,trusted,trusted_cycles", out);
	for (int i = 0; i < shim.n_signals; i++)
		fprintf(out, ",%s", shim.signals[i].name);
	fputc('\n', out);
	for (int i = 0; i < shim.n_threads; i++) {
		const struct by_thread *t = &shim.threads[i];

		fprintf(out, "%d,%d,%llu,%llu,%llu,%llu", ppid_pid(t->ids), ppid_tgid(t->ids),
			(unsigned long long)t->cycles, (unsigned long long)t->windows, (unsigned long long)t->trusted,
			(unsigned long long)t->trusted_cycles);
		for (int k = 0; k < shim.n_signals; k++)
			fprintf(out, ",%llu", (unsigned long long)t->signals[k]);
		fputc('\n', out);
	}
}

static void open_ring(struct ring **where, struct ring *ring, const char *path, size_t record, const struct options *o)
{
	int fd;

	if (!path)
		return;
	fd = strcmp(path, "-") ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : STDOUT_FILENO;
	if (fd < 0)
		fail(path);
	if (!ring_open(ring, record, o->ring, o->limit, fd))
		fail("memory for a ring");
	*where = ring;
}

static void on_stop(int signal)
{
	(void)signal;
	shim_stop = 1;
}

static void observe(const struct options *o)
{
	static struct ring samples, switches;
	struct drain drain = { .nap_ms = (long)o->drain };
	const struct sigaction stop = { .sa_handler = on_stop };
	struct clock_pair a, b;
	const char *ppid_reason = NULL, *host_reason = o->host ? NULL : "not asked for";
	char reason[120];
	bool in_cycles;
	double hz;
	FILE *out;

	shim.cpu = o->cpu;
	shim.random = o->seed * 0x9e3779b97f4a7c15ull | 1;
	if (!bounds_parse(o->bounds, &shim.bounds))
		usage("--bounds %s: LOW,HIGH is wanted, such as 0.99,1.01 or 99/100,101/100", o->bounds);
	for (int i = 0; i < o->n_memory; i++) {
		struct signal_source probe = { 0 };

		if (!signal_memory(&probe, o->memory[i]))
			usage("--signal %s: NAME=FILE@OFFSET is wanted, the offset a multiple of 8", o->memory[i]);
		take(&probe);
	}
	shim.period = duration("--period", o->period, &in_cycles);
	if (!in_cycles)
		shim.period = (uint64_t)((double)shim.period * 1e-9 * (hz = clock_measure_hz()) + 0.5);
	shim.min_window = duration("--min-window", o->min_window, &in_cycles);
	hz = clock_measure_hz();
	if (!in_cycles)
		shim.min_window = (uint64_t)((double)shim.min_window * 1e-9 * hz + 0.5);
	shim.delay_every = o->inject_every;
	shim.delay = (uint64_t)((double)o->inject_ns * 1e-9 * hz + 0.5);
	shim.max_delays = o->inject_every ? MAX_DELAYS : 0;
	if (o->inject_every && !(shim.delays = calloc(MAX_DELAYS, sizeof(*shim.delays))))
		fail("memory for delays");

	if (o->cpu == o->observer_cpu)
		usage("--cpu %d: a CPU cannot be looked at from itself", o->cpu);
	if (!pin(o->observer_cpu))
		usage("--observer-cpu %d: %s", o->observer_cpu, strerror(errno));
	if (!pin(o->cpu) && errno != EINVAL) /* an offline one may be looked at too */
		usage("--cpu %d: %s", o->cpu, strerror(errno));
	if (o->cpu >= sysconf(_SC_NPROCESSORS_CONF))
		usage("--cpu %d: the machine has %ld", o->cpu, sysconf(_SC_NPROCESSORS_CONF));
	shim.line = ppid_map();
	if (shim.line) {
		shim.line += o->cpu;
	} else {
		snprintf(reason, sizeof(reason), "%s: %s", PPID_DEVICE, strerror(errno));
		ppid_reason = reason;
	}
	for (int i = 0; i < o->n_events; i++)
		open_event(event_named(o->events[i]), o);
	shim.host = (struct host){ .observer_cpu = o->observer_cpu, .cpu = o->cpu, .due = UINT64_MAX };
	shim.host.every = (uint64_t)((double)o->host * 1e-3 * hz);
	if (o->host)
		host_reason = host_open(&shim.host);
	if (!pin(o->observer_cpu))
		fail("pinning the observer");

	open_ring(&shim.samples, &samples, o->samples,
		  sizeof(struct sample_record) + 8 * (size_t)shim.n_signals, o);
	open_ring(&shim.switches, &switches, o->switches, sizeof(struct switch_record), o);
	if (shim.samples)
		drain.rings[drain.n++] = shim.samples;
	if (shim.switches)
		drain.rings[drain.n++] = shim.switches;
	sigaction(SIGINT, &stop, NULL);
	sigaction(SIGTERM, &stop, NULL);
	signal(SIGPIPE, SIG_IGN); /* who reads live may go */
	if (drain.n && (errno = drain_begin(&drain)))
		fail("a thread to write");

	a = clock_pair_now();
	shim.stop_at = a.tsc + (uint64_t)(o->seconds * hz);
	if (o->priority && !fifo((int)o->priority))
		fail("--priority");
	shim_run(&shim);
	if (o->priority)
		fifo(0);
	b = clock_pair_now();
	if (drain.n)
		drain_end(&drain);
	for (int i = 0; i < drain.n; i++) {
		errno = drain.rings[i]->error;
		if (errno && errno != EPIPE)
			fail("output");
	}

	out = o->out ? open_out(o->out, "shim.json") : o->samples && !strcmp(o->samples, "-") ? stderr : stdout;
	report(out, o, a, b, hz, ppid_reason, host_reason);
	close_out(out);
	if (!o->out)
		return;
	out = open_out(o->out, "periods.csv");
	periods_write(&shim.periods, out);
	close_out(out);
	out = open_out(o->out, "ids.csv");
	write_threads(out);
	close_out(out);
	if (shim.host.map) {
		out = open_out(o->out, "host.csv");
		host_write(&shim.host, out);
		close_out(out);
	}
	if (o->inject_every) {
		out = open_out(o->out, "injected.bin");
		fwrite(shim.delays, sizeof(*shim.delays), shim.n_delays, out);
		close_out(out);
	}
}

static void list_events(bool json)
{
	struct options o = { .cpu = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 1 : 0, .known_cpu = -1 };
	const struct ppid_line *map = ppid_map();
	const char *map_reason = map ? NULL : strerror(errno), *source = ppid_source();

	for (int i = 0; i < EVENTS; i++) {
		n_refused = shim.n_signals = 0;
		open_event(&events[i], &o);
		if (json) {
			fputs(i ? ",\n" : "{\"events\": [\n", stdout);
			for (int k = 0; k < n_refused + shim.n_signals; k++) {
				if (k)
					fputs(",\n", stdout);
				print_signal(stdout, k < n_refused ? &refused[k] : &shim.signals[k - n_refused]);
			}
			continue;
		}
		for (int k = 0; k < n_refused + shim.n_signals; k++) {
			const struct signal_source *signal = k < n_refused ? &refused[k] : &shim.signals[k - n_refused];

			printf("%-18s %-7s %s\n", events[i].name, source_names[signal->source],
			       signal->reason[0] ? signal->reason : "yes");
		}
	}
	if (!json) {
		printf("%-18s %-7s %s\n", "thread, switches", "ppid", map ? source ? source : "yes" : map_reason);
		return;
	}
	fputs("],\n \"ppid\": ", stdout);
	print_text(stdout, map ? source : NULL);
	fputs(", \"ppid_reason\": ", stdout);
	print_text(stdout, map_reason);
	fputs("}\n", stdout);
}

int main(int argc, char **argv)
{
	struct options o;

	if (argc >= 2 && !strcmp(argv[1], "list")) {
		if (argc > 3 || (argc == 3 && strcmp(argv[2], "json")))
			usage("list: json or nothing");
		list_events(argc == 3);
		return 0;
	}
	if (argc < 2 || strcmp(argv[1], "run"))
		usage("run or list");
	o = read_options(argc, argv);
	observe(&o);
	return 0;
}
