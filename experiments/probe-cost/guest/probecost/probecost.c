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
 *   use bpf=ADDITIONS [map=N] [calls=NAME[/BYTES]:TIMES,…] [ring=BYTES | perf=BYTES] [wakes=1]
 *       [keeps=1]                                                                       a program that consumes it
 *   go
 *
 * With check=1 the workload runs without probes first, then with firings counted, then with the probes; with check=2 all
 * but the last, and with check=3 without probes and then with them. Where there are readers to be checked, a batch has as
 * many rounds more as let them look LOOKS_IN_ALL times in all.
 */
#include "bpf.h"
#include "keeper.h"
#include "probes.h"
#include "readers.h"
#include "work.h"
#include "krepro-roi.h"

#include <limits.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define OTHERS GROUP "_others"

/* What check= asks for. */
enum { CHECK_ALL = 1, CHECK_COUNTS, CHECK_TRACE };

enum { MAX_BATCHES = 64, LINE = 512, MOST_OTHERS = 256, LOOK_ROUNDS = 4, LOOK_SAMPLES = 1000, ECHO_WAKES = 40,
       ECHO_READS = 4, LOOKS_IN_ALL = 32 };

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

		printf("%s{\"firings\": %llu, \"hits\": %lld, \"misses\": %lld, \"size\": %ld, \"texts\": %d, "
		       "\"arrays\": %d, \"frames\": %.4f, "
		       "\"place\": %.4f, \"user_frames\": %.4f, \"in_kernel\": %.4f, \"found\": [%.4f, %.4f, %.4f], "
		       "\"by_wake\": %.4f, \"by_read\": %.4f, \"by_ring\": %.4f, \"passes\": [",
		       i ? ", " : "", (unsigned long long)probe->firings, probe->hits, probe->misses, probe->size,
		       probe->texts, probe->arrays,
		       probe->frames, probe->place, probe->user_frames, probe->in_kernel, probe->found[0], probe->found[1],
		       probe->found[2], probe->by_wake, probe->by_read, probe->by_ring);
		for (int c = 0; c < probe->n_consumers; c++)
			printf("%s%llu", c ? ", " : "", (unsigned long long)probe->consumers[c].passed);
		printf("], \"read_passes\": [");
		for (int c = 0; c < probe->n_consumers; c++)
			printf("%s%.4f", c ? ", " : "", probe->consumers[c].read_passes);
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

/* So many each time, of what a counter has. */
static double each_of(int counter, double wakes)
{
	return counter > 0 && wakes > 0 ? (double)perf_count(counter) / wakes : 0;
}

/* Of what a counter has that which comes with reads, if so many come with a wake-up. */
static double by_read(int counter, double by_wake)
{
	return taken->more ? ((double)perf_count(counter) - by_wake * (double)taken->wakes) / (double)taken->more : 0;
}

/*
 * What the readers themselves fire: they look into empty buffers while somebody counts and nobody traces. Per wake-up of
 * those of instances; per read of theirs that gives something, and how many of these pass filters, which is not as many
 * as of the workload's; and per wake-up of those of rings.
 */
static void count_echo(const struct run *run)
{
	static const struct {
		enum reader kind;
		long more;
	} turns[] = { { OF_INSTANCES, 0 }, { OF_INSTANCES, ECHO_READS }, { OF_RINGS, 0 } };
	double passed[MAX_PROBES][MAX_CONSUMERS] = { 0 };
	bool told = false;

	for (size_t turn = 0; turn < 3 && !problem[0]; turn++) {
		int beside[BESIDE];
		uint64_t until;

		define_all();
		open_counters(beside);
		if (problem[0]) {
			close_counters(beside);
			return;
		}
		start_readers(run->drain, run->readers > 1, turns[turn].kind, turns[turn].more);
		prctl(PR_TASK_PERF_EVENTS_ENABLE);
		for (until = now() + (uint64_t)run->drain * 1000 * ECHO_WAKES; now() < until;)
			;
		prctl(PR_TASK_PERF_EVENTS_DISABLE);
		stop_readers();
		for (int i = 0; i < n_probes; i++) {
			double each = each_of(probes[i].counter, (double)taken->wakes);

			if (!turn)
				probes[i].by_wake = each;
			else if (turn == 1 && probes[i].counter > 0)
				probes[i].by_read = by_read(probes[i].counter, probes[i].by_wake);
			else if (turn == 2)
				probes[i].by_ring = each;
			for (int c = 0; c < probes[i].n_consumers; c++) {
				struct consumer *consumer = &probes[i].consumers[c];

				if (!turn)
					passed[i][c] = each_of(consumer->passes, (double)taken->wakes);
				else if (turn == 1 && consumer->passes > 0)
					consumer->read_passes = by_read(consumer->passes, passed[i][c]);
			}
		}
		if (taken->wakes && !told)
			printf(", \"syscalls_by_wake\": %.4f, \"switches_by_wake\": %.4f",
			       each_of(beside[SYSCALLS], (double)taken->wakes), each_of(beside[SWITCHES], (double)taken->wakes));
		told |= taken->wakes > 0;
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

/* Some rounds with one consumer of a probe that takes stacks, or with a sampler of it (-1): how deep they are. */
static void look_at(const struct run *run, struct probe *probe, int consumer)
{
	static char text[1 << 18];
	bool clock = is(probe, "sample"), sampled = clock || consumer < 0 || probe->consumers[consumer].program.used;
	uint64_t until;

	define_all();
	start_one(probe, consumer);
	until = now() + (uint64_t)LOOK_SAMPLES * LOOK_NS;
	for (long round = 0; (clock ? now() < until : round < LOOK_ROUNDS) && !problem[0]; round++) {
		run->work->once(round);
		spin(spin_loops);
	}
	if (consumer < 0 && !problem[0]) {
		double frames = probe->frames;

		sampled_frames(probe);
		probe->place = probe->frames;
		probe->frames = frames;
	} else if (sampled && !problem[0]) {
		sampled_frames(probe);
	} else { /* to read it may fire the probe: what is read is to be the workload's */
		put(in_instance(consumer, "tracing_on%s", ""), "0", 0);
		probe->frames = frames_in(get(in_instance(consumer, "trace%s", ""), text, sizeof(text)));
		put(in_instance(consumer, "tracing_on%s", ""), "1", 0);
	}
	stop_all();
}

/* Of what takes stacks; and of all probes, where a sampler's may be of their handling. */
static void look_at_stacks(const struct run *run)
{
	bool everywhere = false;

	for (int i = 0; i < n_probes; i++)
		everywhere |= is(&probes[i], "sample") && takes_stacks(&probes[i].consumers[0]);
	for (int i = 0; i < n_probes && !problem[0]; i++) {
		for (int c = 0; c < probes[i].n_consumers && !problem[0]; c++)
			if (takes_stacks(&probes[i].consumers[c]) && probes[i].frames <= 0)
				look_at(run, &probes[i], c);
		if (everywhere && !is(&probes[i], "sample") && !problem[0])
			look_at(run, &probes[i], -1);
	}
}

/* How long events are, and how much each program executes: it is loaded, and nothing is enabled. */
static void look_at_consumers(void)
{
	define_all();
	read_sizes();
	load_programs();
	stop_all();
}

/* Without probes, then with firings counted. */
static void measure_plain(const struct run *run, uint64_t *plain)
{
	uint64_t counted[MAX_BATCHES];
	int beside[BESIDE];

	batches(run, plain);
	if (run->check == CHECK_TRACE)
		return;
	define_all();
	open_counters(beside); /* an open counter costs something even while it is off: none before here */
	if (problem[0]) {
		close_counters(beside);
		return;
	}
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

/* Readers look so seldom that a few batches have too few looks: one more or less would be much of what they take. */
static void lengthen(struct run *run)
{
	uint64_t wanted = (uint64_t)run->drain * 1000 * LOOKS_IN_ALL / (uint64_t)run->batches, took[MAX_BATCHES];
	struct run once = *run;

	once.batches = 1;
	batches(&once, took);
	if (took[0] && took[0] < wanted)
		run->rounds *= (long)((wanted + took[0] - 1) / took[0]);
}

/* The run with its probes; returns its number among the oracle's laps, or -1. */
static int trace(const struct run *run, const uint64_t *plain)
{
	uint64_t took[MAX_BATCHES] = { 0 }, from[MAX_PROBES], until[MAX_PROBES];
	int instances = 1, lap;

	for (int i = 0; i < n_probes; i++)
		instances = probes[i].n_consumers > instances ? probes[i].n_consumers : instances;
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
	if (problem[0])
		return -1;
	start_readers(run->drain, run->readers > 1, ALL_READERS, 0);
	for (int i = 0; i < n_probes; i++)
		from[i] = sampled_until(&probes[i]);
	lap = laps++;
	roi_lap_begin();
	batches(run, took);
	roi_lap_end();
	for (int i = 0; i < n_probes; i++)
		until[i] = sampled_until(&probes[i]);
	stop_readers();
	read_hits();
	for (int i = 0; i < n_probes; i++)
		if (is(&probes[i], "sample"))
			found_frames(&probes[i], from[i], until[i]);
	if (run->check)
		print_series("plain", run, plain);
	print_series("took", run, took);
	print_probes();
	print_hists();
	printf(", \"wakes\": %ld, \"pages\": %ld, \"whole\": %ld, \"records\": %ld, \"waiter_ns\": %ld", taken->wakes,
	       taken->pages, taken->whole, taken->records, taken->waiter_ns);
	print_buffers(instances);
	return lap;
}

static void execute(struct run *run)
{
	uint64_t plain[MAX_BATCHES] = { 0 };
	int lap = -1;

	if (run->check && run->drain)
		lengthen(run);
	printf("{\"run\": \"%s\", \"script\": \"%s\", \"rounds\": %ld", run->name, echo, run->rounds);
	if (run->check)
		measure_plain(run, plain);
	if (!problem[0] && run->check != CHECK_TRACE)
		look_at_stacks(run);
	if (!problem[0] && run->check == CHECK_COUNTS) {
		look_at_consumers();
		print_series("plain", run, plain);
		batches(run, plain); /* once more: how far what is not traced is from itself */
		print_series("again", run, plain);
		print_probes();
	} else if (!problem[0]) {
		lap = trace(run, plain);
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

/*
 * Where the stack and the heap lie decides how many of their pages a fork's two tasks write, so how often they fault: in each
 * boot other ones, unless addresses are not drawn, and no environment lies above the stack.
 */
static void settle_addresses(char **argv)
{
	char path[PATH_MAX] = "";
	int persona = personality(0xffffffff);

	if (persona != -1 && persona & ADDR_NO_RANDOMIZE)
		return;
	if (persona == -1 || personality((unsigned long)persona | ADDR_NO_RANDOMIZE) == -1)
		die_errno("personality");
	/* By its path: a task's name is what it was started as. */
	if (readlink("/proc/self/exe", path, sizeof(path) - 1) < 0)
		die_errno("/proc/self/exe");
	execve(path, argv, (char *[]){ NULL });
	die_errno(path);
}

int main(int argc, char **argv)
{
	const char *only = argc == 4 && !strcmp(argv[2], "--only") ? argv[3] : "";
	static struct run run;
	char line[LINE];

	settle_addresses(argv);
	if ((argc != 2 && !*only) || (strcmp(argv[1], "ticks") && strcmp(argv[1], "ns")))
		die_usage("usage: probecost ticks|ns [--only PREFIX,...] < SCRIPT");
	counts_instructions = !strcmp(argv[1], "ticks");
	mkdir(TRACEFS, 0700);
	mount("tracefs", TRACEFS, "tracefs", 0, NULL);
	prepare_keeper();
	prepare_readers();
	prepare_programs();
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
