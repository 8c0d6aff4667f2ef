// SPDX-License-Identifier: MIT
/*
 * probecost: measure what probes cost. Reads runs from standard input, prints one line of JSON for each.
 *
 *   probecost ticks|ns [--only PREFIX,…] < SCRIPT
 *
 * ticks: the time-stamp counter, which counts instructions under the virtual clock with shift 0. A run is
 *
 *   run NAME work=WORK [rounds=N] [batches=N] [spin=LOOPS] [drain=MICROSECONDS] [others=N] [buffer=KIB] [check=1]
 *            [depth=N] [sleepers=N] [cmdlines=0] [readers=2] [path=LENGTH]
 *   probe PROVIDER TARGET [maxactive=N] [FETCH-ARGUMENT ...]
 *   use [record=0] [filter=EXPRESSION] [hist=KEYS] [stack=1]                            a consumer of that probe
 *   use bpf=ADDITIONS [map=N] [calls=NAME[/BYTES]:TIMES,…] [ring=BYTES | perf=BYTES [wakes=1]]
 *       [keeps=1]                                                                       a program that consumes it
 *   go
 *
 * With check=1 the workload runs without probes first, then with firings counted, then with the probes.
 */
#include "bpf.h"
#include "probes.h"
#include "readers.h"
#include "work.h"
#include "krepro-roi.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define OTHERS GROUP "_others"

enum { MAX_BATCHES = 64, LINE = 512, MOST_OTHERS = 256, LOOK_ROUNDS = 4, ECHO_WAKES = 40, ECHO_READS = 4 };

struct run {
	char name[64];
	const struct work *work;
	long rounds, batches, drain, readers, others, buffer, check, cmdlines;
};

static char echo[8192];
static int laps;

/* The value after "key=" in a line of words, up to the next blank; or NULL. */
static char *word(char *line, const char *key, char *value, size_t size)
{
	size_t length = strlen(key);

	for (char *at = line; (at = strstr(at, key)); at += length) {
		if (at[length] != '=' || (at != line && at[-1] != ' '))
			continue;
		at += length + 1;
		length = strcspn(at, " ");
		if (length >= size)
			die("%s is too long: %s", key, line);
		memcpy(value, at, length);
		value[length] = 0;
		return value;
	}
	return NULL;
}

static long number(char *line, const char *key, long otherwise)
{
	char value[32];

	return word(line, key, value, sizeof(value)) ? strtol(value, NULL, 0) : otherwise;
}

static void parse_run(char *line, struct run *run)
{
	char name[32] = "";

	memset(probes, 0, sizeof(probes));
	n_probes = 0;
	problem[0] = 0;
	if (sscanf(line, "run %63s", run->name) != 1 || !word(line, "work", name, sizeof(name)))
		die("a run has a name and a workload: %s", line);
	run->work = find_work(name);
	if (!run->work)
		die("unknown workload: %s", line);
	run->rounds = number(line, "rounds", 400);
	run->batches = number(line, "batches", 7);
	run->drain = number(line, "drain", 0);
	run->readers = number(line, "readers", 1);
	run->others = number(line, "others", 0);
	run->buffer = number(line, "buffer", 0);
	run->check = number(line, "check", 0);
	run->cmdlines = number(line, "cmdlines", 1);
	spin_loops = number(line, "spin", 0);
	depth = number(line, "depth", 1);
	sleepers = number(line, "sleepers", 1);
	path_length = number(line, "path", 20);
	if (run->batches < 1 || run->batches > MAX_BATCHES || run->rounds < 1 || run->others > MOST_OTHERS ||
	    sleepers > 64 || path_length < 8 || path_length > 200)
		die("out of range: %s", line);
}

static void parse_probe(char *line)
{
	struct probe *probe = &probes[n_probes++];
	int used = 0;

	if (n_probes > MAX_PROBES || sscanf(line, "probe %31s %63s %n", probe->provider, probe->target, &used) < 2)
		die("not a probe, or too many: %s", line);
	snprintf(probe->definition, sizeof(probe->definition), "%s", line + used);
}

static void parse_use(char *line)
{
	struct probe *probe = &probes[n_probes - 1];
	struct consumer *consumer = n_probes ? &probe->consumers[probe->n_consumers++] : NULL;
	char calls[160];

	if (!consumer || probe->n_consumers > MAX_CONSUMERS)
		die("no probe, or too many consumers: %s", line);
	consumer->program.additions = number(line, "bpf", -1);
	consumer->program.aggregate = number(line, "map", 0);
	consumer->program.out = number(line, "ring", number(line, "perf", 0));
	consumer->program.perf = number(line, "perf", 0);
	consumer->program.wakes = number(line, "wakes", 0);
	consumer->program.keeps = number(line, "keeps", 0);
	consumer->program.used = consumer->program.additions >= 0;
	if (word(line, "calls", calls, sizeof(calls)))
		parse_calls(calls, &consumer->program);
	consumer->record = !consumer->program.used && number(line, "record", 1);
	consumer->stack = number(line, "stack", 0);
	word(line, "filter", consumer->filter, sizeof(consumer->filter));
	word(line, "hist", consumer->hist, sizeof(consumer->hist));
}

/* -- what runs beside ---------------------------------------------------------------------------------- */

/*
 * Other probes of the first probe's provider, enabled where nothing runs (functions of acpi, a place that is never
 * called, quiet subsystems); or, with `undo`, taken away.
 */
static void others(long count, bool undo)
{
	static const char *const quiet[] = { "damon", "migrate", "compaction", "filelock", "vmscan", "writeback" };
	static const char *const list = TRACEFS "/available_filter_functions";
	const struct probe *first = &probes[0];
	char text[320], name[160];
	FILE *functions = NULL;
	long made = 0;

	if (!count)
		return;
	if (is(first, "tracepoint")) {
		for (size_t i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
			snprintf(text, sizeof(text), "events/%s/enable", quiet[i]);
			put(in_instance(0, "%s", text), undo ? "0" : "1", 0);
		}
		return;
	}
	if (undo) {
		put(in_instance(0, "events/" OTHERS "/enable%s", ""), "0", 0);
		for (long i = 0; i < count; i++) {
			snprintf(text, sizeof(text), "-:" OTHERS "/o%ld", i);
			put(is_user(first) ? "uprobe_events" : "kprobe_events", text, O_APPEND);
		}
		return;
	}
	if (!is_user(first) && !(functions = fopen(list, "re")))
		fail("%s: %s", list, strerror(errno));
	while (made < count && !problem[0]) {
		if (is_user(first)) {
			snprintf(text, sizeof(text), "p:" OTHERS "/o%ld %s:0x%llx", made, own_path(),
				 (unsigned long long)file_offset((uint64_t)(uintptr_t)u_others) + (uint64_t)made);
		} else if (!fgets(name, sizeof(name), functions)) {
			fail("there are fewer than %ld functions to probe", count);
			break;
		} else if (strncmp(name, "acpi_", 5)) {
			continue;
		} else {
			name[strcspn(name, " \n")] = 0;
			snprintf(text, sizeof(text), "p:" OTHERS "/o%ld %s%s", made, name,
				 strchr(first->target, '+') ? "+5" : "");
		}
		if (put(is_user(first) ? "uprobe_events" : "kprobe_events", text, O_APPEND))
			made++;
		else if (!is_user(first))
			problem[0] = 0; /* not every function can be probed there: take the next */
	}
	if (functions)
		fclose(functions);
	if (!problem[0])
		put(in_instance(0, "events/" OTHERS "/enable%s", ""), "1", 0);
}

/* -- measuring ----------------------------------------------------------------------------------------- */

static void batches(const struct run *run, uint64_t *took)
{
	for (long b = 0; b < run->batches; b++) {
		uint64_t begin = now();

		for (long i = 0; i < run->rounds; i++) {
			run->work->once(i);
			spin(spin_loops);
		}
		took[b] = now() - begin;
	}
}

static void print_series(const char *name, const struct run *run, const uint64_t *took)
{
	printf(", \"%s\": [", name);
	for (long b = 0; b < run->batches; b++)
		printf("%s%llu", b ? ", " : "", (unsigned long long)took[b]);
	printf("]");
}

/* What each instance's ring buffer says of losses. */
static void print_buffers(int instances)
{
	static char text[1 << 12];

	printf(", \"buffers\": [");
	for (int i = 0; i < instances; i++) {
		get(in_instance(i, "per_cpu/cpu0/stats%s", ""), text, sizeof(text));
		printf("%s{\"entries\": %lld, \"overrun\": %lld, \"dropped\": %lld, \"bytes\": %lld}", i ? ", " : "",
		       number_after(text, "entries: "), number_after(text, "overrun: "),
		       number_after(text, "dropped events: "), number_after(text, "bytes: "));
	}
	printf("]");
}

/* hist: what came into tables, and what was lost because one was full, over all consumers. */
static void print_hists(void)
{
	static char text[1 << 17];
	long long hits = 0, drops = 0;

	for (int i = 0; i < n_probes; i++)
		for (int c = 0; c < probes[i].n_consumers; c++)
			if (probes[i].consumers[c].hist[0]) {
				get(in_instance(c, "events/%s/hist", probes[i].event), text, sizeof(text));
				hits += number_after(text, "Hits: ");
				drops += number_after(text, "Dropped: ");
			}
	printf(", \"keyed\": %lld, \"drops\": %lld", hits, drops);
}

static void print_probes(void)
{
	printf(", \"probes\": [");
	for (int i = 0; i < n_probes; i++) {
		const struct probe *probe = &probes[i];

		printf("%s{\"firings\": %llu, \"hits\": %lld, \"misses\": %lld, \"size\": %ld, \"frames\": %.4f, "
		       "\"user_frames\": %.4f, \"by_wake\": %.4f, \"by_read\": %.4f, \"passes\": [", i ? ", " : "",
		       (unsigned long long)probe->firings, probe->hits, probe->misses, probe->size, probe->frames,
		       probe->user_frames, probe->by_wake, probe->by_read);
		for (int c = 0; c < probe->n_consumers; c++)
			printf("%s%llu", c ? ", " : "", (unsigned long long)probe->consumers[c].passed);
		printf("], \"executed\": [");
		for (int c = 0; c < probe->n_consumers; c++)
			printf("%s%ld", c ? ", " : "", probe->consumers[c].program.executed);
		printf("]}");
	}
	printf("]");
}

/* -- before the trace: what a prediction is made from -------------------------------------------------- */

/* What is counted beside the probes: system calls, and switches of tasks. */
enum { SYSCALLS, SWITCHES, BESIDE };

static void open_counters(int *beside)
{
	start_counting();
	beside[SYSCALLS] = perf_tracepoint("raw_syscalls/sys_enter");
	beside[SWITCHES] = perf_tracepoint("sched/sched_switch");
}

static void close_counters(const int *beside)
{
	close(beside[SYSCALLS]);
	close(beside[SWITCHES]);
	stop_all();
}

/*
 * What the readers themselves fire: they look into empty buffers while somebody counts and nobody traces. Per wake-up
 * of each, and per call of read beyond the first.
 */
static void count_echo(const struct run *run)
{
	double first[MAX_PROBES + BESIDE] = { 0 };

	for (long empty = 0; empty <= ECHO_READS && !problem[0]; empty += ECHO_READS) {
		int beside[BESIDE];
		uint64_t until;

		define_all();
		open_counters(beside);
		if (problem[0])
			return;
		start_readers(run->drain, run->readers > 1, empty);
		prctl(PR_TASK_PERF_EVENTS_ENABLE);
		for (until = now() + (uint64_t)run->drain * 1000 * ECHO_WAKES; now() < until;)
			;
		prctl(PR_TASK_PERF_EVENTS_DISABLE);
		stop_readers();
		for (int i = 0; i < n_probes + BESIDE; i++) {
			int counter = i < n_probes ? probes[i].counter : beside[i - n_probes];
			double each = counter > 0 && taken->wakes ? (double)perf_count(counter) / (double)taken->wakes : 0;

			if (!empty)
				first[i] = each;
			else if (i < n_probes)
				probes[i].by_wake = first[i], probes[i].by_read = (each - first[i]) / ECHO_READS;
			else
				printf(", \"%s_by_wake\": %.4f", i - n_probes == SYSCALLS ? "syscalls" : "switches", first[i]);
		}
		close_counters(beside);
	}
}

/* The mean number of frames of the stacks in a text of tracefs. */
static double frames_in(const char *text)
{
	long stacks = 0, frames = 0;

	for (const char *at = text; (at = strstr(at, "<stack trace>")); at++, stacks++)
		for (const char *line = strchr(at, '\n'); line && !strncmp(line, "\n => ", 5); line = strchr(line + 1, '\n'))
			frames++;
	return stacks ? (double)frames / (double)stacks : 0;
}

static bool takes_stacks(const struct consumer *consumer)
{
	bool takes = consumer->stack;

	for (int i = 0; i < consumer->program.n_calls; i++)
		takes |= !strcmp(consumer->program.calls[i].name, "stack");
	return takes;
}

/* A few rounds with one consumer that takes stacks: how deep they are. */
static void look_at_stacks(const struct run *run)
{
	static char text[1 << 18];

	for (int i = 0; i < n_probes && !problem[0]; i++)
		for (int c = 0; c < probes[i].n_consumers && !problem[0]; c++) {
			struct consumer *consumer = &probes[i].consumers[c];
			bool clock = is(&probes[i], "sample"), sampled = clock || consumer->program.used;

			if (!takes_stacks(consumer) || probes[i].frames > 0)
				continue;
			define_all();
			start_one(&probes[i], c);
			for (long round = 0; round < (clock ? run->rounds * run->batches : LOOK_ROUNDS) && !problem[0]; round++) {
				run->work->once(round);
				spin(spin_loops);
			}
			if (sampled && !problem[0])
				sampled_frames(&probes[i]);
			else
				probes[i].frames = frames_in(get(in_instance(c, "trace%s", ""), text, sizeof(text)));
			stop_all();
		}
}

/* Without probes, then with firings counted. */
static void measure_plain(const struct run *run, uint64_t *plain)
{
	uint64_t counted[MAX_BATCHES];
	int beside[BESIDE];

	batches(run, plain);
	define_all();
	open_counters(beside); /* an open counter costs something even while it is off: none before here */
	if (problem[0])
		return;
	/* All at once, so that none counts what the others do. */
	prctl(PR_TASK_PERF_EVENTS_ENABLE);
	batches(run, counted);
	prctl(PR_TASK_PERF_EVENTS_DISABLE);
	printf(", \"syscalls\": %llu, \"switches\": %llu", (unsigned long long)perf_count(beside[SYSCALLS]),
	       (unsigned long long)perf_count(beside[SWITCHES]));
	for (int i = 0; i < n_probes; i++) {
		if (probes[i].counter > 0)
			probes[i].firings = perf_count(probes[i].counter);
		for (int c = 0; c < probes[i].n_consumers; c++)
			if (probes[i].consumers[c].passes > 0)
				probes[i].consumers[c].passed = perf_count(probes[i].consumers[c].passes);
	}
	close_counters(beside);
	if (run->drain)
		count_echo(run);
}

static void execute(struct run *run)
{
	uint64_t plain[MAX_BATCHES] = { 0 }, took[MAX_BATCHES] = { 0 };
	int instances = 1, lap = -1;

	for (int i = 0; i < n_probes; i++)
		instances = probes[i].n_consumers > instances ? probes[i].n_consumers : instances;
	printf("{\"run\": \"%s\", \"script\": \"%s\", \"rounds\": %ld", run->name, echo, run->rounds);
	if (run->check)
		measure_plain(run, plain);
	if (!problem[0])
		look_at_stacks(run);
	if (!problem[0])
		define_all();
	if (!problem[0])
		others(run->others, false);
	read_sizes();
	if (!problem[0])
		start_all();
	/* For all instances alike, and only for what is enabled by then. */
	put("options/record-cmd", run->cmdlines ? "1" : "0", 0);
	if (!problem[0] && run->buffer) {
		char text[16];

		snprintf(text, sizeof(text), "%ld", run->buffer);
		put(in_instance(0, "buffer_size_kb%s", ""), text, 0);
	}
	for (int i = 0; i < instances && !problem[0]; i++) /* what setting up left there */
		put(in_instance(i, "trace%s", ""), "", O_TRUNC);
	if (!problem[0]) {
		start_readers(run->drain, run->readers > 1, 0);
		lap = laps++;
		roi_lap_begin();
		batches(run, took);
		roi_lap_end();
		stop_readers();
		read_hits();
		if (run->check)
			print_series("plain", run, plain);
		print_series("took", run, took);
		print_probes();
		print_hists();
		printf(", \"wakes\": %ld, \"pages\": %ld, \"whole\": %ld, \"records\": %ld, \"waiter_ns\": %ld",
		       taken->wakes, taken->pages, taken->whole, taken->records, taken->waiter_ns);
		print_buffers(instances);
	}
	others(run->others, true);
	stop_all();
	put("options/record-cmd", "1", 0);
	printf(", \"lap\": %d, \"problem\": \"%s\"}\n", lap, problem);
	fflush(stdout);
}

/* Whether a run's name begins with one of the prefixes, which commas separate; without any, all do. */
static bool chosen(const char *name, const char *prefixes)
{
	size_t length = strcspn(prefixes, ",");

	if (!strncmp(name, prefixes, length))
		return true;
	return prefixes[length] && chosen(name, prefixes + length + 1);
}

static void echo_line(const char *line)
{
	size_t used = strlen(echo);

	if (strpbrk(line, "\"\\"))
		die("no quotes in a script: %s", line);
	if ((size_t)snprintf(echo + used, sizeof(echo) - used, "%s%s", used ? "\\n" : "", line) >= sizeof(echo) - used)
		die("the run is too long: %s", line);
}

int main(int argc, char **argv)
{
	const char *only = argc == 4 && !strcmp(argv[2], "--only") ? argv[3] : "";
	static struct run run;
	char line[LINE];

	if ((argc != 2 && !*only) || (strcmp(argv[1], "ticks") && strcmp(argv[1], "ns")))
		die_usage("usage: probecost ticks|ns [--only PREFIX,...] < SCRIPT");
	counts_instructions = !strcmp(argv[1], "ticks");
	mkdir(TRACEFS, 0700);
	mount("tracefs", TRACEFS, "tracefs", 0, NULL);
	prepare_readers();
	prepare_works();
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "#\n")] = 0;
		while (line[0] && line[strlen(line) - 1] == ' ')
			line[strlen(line) - 1] = 0;
		if (!line[0])
			continue;
		if (!strncmp(line, "run ", 4)) {
			echo[0] = 0;
			parse_run(line, &run);
		} else if (!strncmp(line, "probe ", 6)) {
			parse_probe(line);
		} else if (!strcmp(line, "use") || !strncmp(line, "use ", 4)) {
			parse_use(line);
		} else if (!strcmp(line, "go")) {
			if (run.work && chosen(run.name, only))
				execute(&run);
			continue;
		} else {
			die("not a line of a script: %s", line);
		}
		echo_line(line);
	}
	return 0;
}
