// SPDX-License-Identifier: MIT
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
#include "krepro.h"
#include "observer.h"
#include "options.h"
#include "out.h"
#include "report.h"

#include <sched.h>

enum { MAX_DELAYS = 65536 };

static struct shim shim;
static struct signal_source refused[2 * SIGNALS];
static int n_refused;

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

/*
 * Of the observed CPU: what its line publishes, else for instructions the oracle's counter. The observer's own counter is
 * tried as well, and refused by the known loop of another thread: it counts the observer.
 */
static void open_event(const struct event *event, const struct options *o, const struct ppid_line *line)
{
	const int known_cpu = o->known_cpu < 0 ? o->cpu : o->known_cpu;
	const bool is_instructions = event == &events[0];
	struct signal_source signal = { 0 };

	signal_slot(&signal, event, line);
	if (!signal.reason[0] && is_instructions)
		signal_check(&signal, known_cpu);
	else if (!signal.reason[0])
		signal_trust_as(&signal, &events[0], line, known_cpu);
	if (take(&signal))
		return;
	memset(&signal, 0, sizeof(signal));
	signal_pmu(&signal, event);
	if (!signal.reason[0] && is_instructions)
		signal_check(&signal, known_cpu);
	if (!signal.reason[0])
		snprintf(signal.reason, sizeof(signal.reason), "counts the observer's own thread, not CPU %d", o->cpu);
	take(&signal);
	if (!is_instructions)
		return;
	memset(&signal, 0, sizeof(signal));
	signal_oracle(&signal, o->cpu);
	if (!signal.reason[0])
		signal_check(&signal, known_cpu);
	take(&signal);
}

static void open_ring(struct ring **where, struct ring *ring, const char *path, size_t record, const struct options *o)
{
	int fd;

	if (!path)
		return;
	fd = strcmp(path, "-") ? create_or_die(path) : STDOUT_FILENO;
	if (!ring_open(ring, record, o->ring, o->limit, fd))
		die_errno("memory for a ring");
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
	struct answer answer = { .observer_cpu = o->observer_cpu, .host_reason = o->host ? NULL : "not asked for" };
	char reason[120];
	bool in_cycles;
	double hz;
	FILE *out;

	shim.cpu = o->cpu;
	shim.random = o->seed * 0x9e3779b97f4a7c15ull | 1;
	if (!bounds_parse(o->bounds, &shim.bounds))
		die_usage("--bounds %s: LOW,HIGH is wanted, such as 0.99,1.01 or 99/100,101/100" USAGE, o->bounds);
	for (int i = 0; i < o->n_memory; i++) {
		struct signal_source probe = { 0 };

		if (!signal_memory(&probe, o->memory[i]))
			die_usage("--signal %s: NAME=FILE@OFFSET is wanted, the offset a multiple of 8" USAGE, o->memory[i]);
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
		die_errno("memory for delays");

	if (o->cpu == o->observer_cpu)
		die_usage("--cpu %d: a CPU cannot be looked at from itself" USAGE, o->cpu);
	if (!pin(o->observer_cpu))
		die_usage("--observer-cpu %d: %s" USAGE, o->observer_cpu, strerror(errno));
	if (!pin(o->cpu) && errno != EINVAL) /* an offline one may be looked at too */
		die_usage("--cpu %d: %s" USAGE, o->cpu, strerror(errno));
	if (o->cpu >= ppid_cpus())
		die_usage("--cpu %d: the machine has %d" USAGE, o->cpu, ppid_cpus());
	shim.line = ppid_map();
	if (shim.line) {
		shim.line += o->cpu;
	} else {
		snprintf(reason, sizeof(reason), "%s: %s", PPID_DEVICE, strerror(errno));
		answer.ppid_reason = reason;
	}
	for (int i = 0; i < o->n_events; i++)
		open_event(event_named(o->events[i]), o, shim.line);
	shim.host = (struct host){ .observer_cpu = o->observer_cpu, .cpu = o->cpu, .due = UINT64_MAX };
	shim.host.every = (uint64_t)((double)o->host * 1e-3 * hz);
	if (o->host)
		answer.host_reason = host_open(&shim.host);
	if (!pin(o->observer_cpu))
		die_errno("pinning the observer");

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
		die_errno("a thread to write");

	answer.begin = clock_pair_now();
	shim.stop_at = answer.begin.tsc + (uint64_t)(o->seconds * hz);
	if (o->priority && !fifo((int)o->priority))
		die_errno("--priority");
	shim_run(&shim);
	if (o->priority)
		fifo(0);
	answer.end = clock_pair_now();
	answer.hz = hz;
	answer.refused = refused;
	answer.n_refused = n_refused;
	if (drain.n)
		drain_end(&drain);
	for (int i = 0; i < drain.n; i++) {
		errno = drain.rings[i]->error;
		if (errno && errno != EPIPE)
			die_errno("output");
	}

	out = o->out ? open_out(o->out, "shim.json") : o->samples && !strcmp(o->samples, "-") ? stderr : stdout;
	report(out, &shim, &answer);
	close_or_die(out, "output");
	if (!o->out)
		return;
	out = open_out(o->out, "periods.csv");
	periods_write(&shim.periods, out);
	close_or_die(out, "output");
	out = open_out(o->out, "ids.csv");
	write_threads(out, &shim);
	close_or_die(out, "output");
	if (shim.host.map) {
		out = open_out(o->out, "host.csv");
		host_write(&shim.host, out);
		close_or_die(out, "output");
	}
	if (o->inject_every) {
		out = open_out(o->out, "injected.bin");
		fwrite(shim.delays, sizeof(*shim.delays), shim.n_delays, out);
		close_or_die(out, "output");
	}
}

static void list_events(bool json)
{
	struct options o = { .cpu = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 1 : 0, .known_cpu = -1 };
	const struct ppid_line *map = ppid_map();
	const char *map_reason = map ? NULL : strerror(errno), *source = ppid_source();
	const struct ppid_line *line = map ? map + o.cpu : NULL;

	for (int i = 0; i < EVENTS; i++) {
		n_refused = shim.n_signals = 0;
		open_event(&events[i], &o, line);
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
			die_usage("list: json or nothing" USAGE);
		list_events(argc == 3);
		return 0;
	}
	if (argc < 2 || strcmp(argv[1], "run"))
		die_usage("run or list" USAGE);
	o = read_options(argc, argv);
	observe(&o);
	return 0;
}
