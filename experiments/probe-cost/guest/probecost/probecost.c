// SPDX-License-Identifier: MIT
/*
 * probecost: measure what probes cost. Reads runs from standard input, prints one line of JSON for each.
 *
 *   probecost ticks|ns [--only PREFIX,…] < SCRIPT
 *
 * ticks: the time-stamp counter, which counts instructions under the virtual clock with shift 0. A run is
 *
 *   run NAME work=WORK [rounds=N] [batches=N] [spin=LOOPS] [drain=MICROSECONDS] [others=N] [buffer=KIB] [check=1]
 *            [depth=N] [sleepers=N] [cmdlines=0]
 *   probe PROVIDER TARGET [maxactive=N] [FETCH-ARGUMENT ...]
 *   use [record=0] [filter=EXPRESSION] [hist=KEYS] [stack=1] [bpf=ADDITIONS [map=N]]    a consumer of that probe
 *   go
 *
 * With check=1 the workload runs without probes first, then with firings counted, then with the probes.
 */
#include "bpf.h"
#include "probes.h"
#include "work.h"
#include "krepro-roi.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { MAX_BATCHES = 64, LINE = 512, OTHERS = 256, READS = 256 };

struct run {
	char name[64];
	const struct work *work;
	long rounds, batches, drain, others, buffer, check, cmdlines;
};

struct drained {
	volatile long stop, wakes, pages;
};

static char echo[8192];
static struct drained *drained;
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
	run->others = number(line, "others", 0);
	run->buffer = number(line, "buffer", 0);
	run->check = number(line, "check", 0);
	run->cmdlines = number(line, "cmdlines", 1);
	spin_loops = number(line, "spin", 0);
	depth = number(line, "depth", 1);
	sleepers = number(line, "sleepers", 1);
	if (run->batches < 1 || run->batches > MAX_BATCHES || run->rounds < 1 || run->others > OTHERS ||
	    sleepers > 64)
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

	if (!consumer || probe->n_consumers > MAX_CONSUMERS)
		die("no probe, or too many consumers: %s", line);
	consumer->additions = number(line, "bpf", -1);
	consumer->aggregate = number(line, "map", 0);
	consumer->program = consumer->additions >= 0;
	consumer->record = !consumer->program && number(line, "record", 1);
	consumer->stack = number(line, "stack", 0);
	word(line, "filter", consumer->filter, sizeof(consumer->filter));
	word(line, "hist", consumer->hist, sizeof(consumer->hist));
}

/* -- what runs beside ---------------------------------------------------------------------------------- */

/* The periodic refresh: a process that empties every instance's buffer, page by page. */
static pid_t start_drain(long microseconds, int instances)
{
	struct sched_param first = { .sched_priority = 1 };
	static char page[4096];
	int pipe[MAX_CONSUMERS];
	pid_t child;

	memset((void *)drained, 0, sizeof(*drained));
	if (!microseconds)
		return 0;
	child = fork();
	if (child)
		return child;
	/* It runs when it is time, not when the scheduler finds it fair. */
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		die("sched_setscheduler: %s", strerror(errno));
	prctl(PR_SET_TIMERSLACK, 1);
	for (int i = 0; i < instances; i++) {
		char path[128];

		snprintf(path, sizeof(path), TRACEFS "/%s", in_instance(i, "per_cpu/cpu0/trace_pipe_raw%s", ""));
		pipe[i] = (int)TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_NONBLOCK));
	}
	while (!drained->stop) {
		sleep_ns((uint64_t)microseconds * 1000);
		drained->wakes++;
		for (int i = 0; i < instances; i++) {
			ssize_t got;

			/* Bounded: where reading itself is traced, every read makes something to read. */
			for (int n = 0; n < READS && (got = TEMP_FAILURE_RETRY(read(pipe[i], page, sizeof(page)))) > 0; n++)
				drained->pages++;
		}
	}
	_exit(0);
}

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
			put(text, undo ? "0" : "1", 0);
		}
		return;
	}
	if (undo) {
		put("events/others/enable", "0", 0);
		for (long i = 0; i < count; i++) {
			snprintf(text, sizeof(text), "-:others/o%ld", i);
			put(is_user(first) ? "uprobe_events" : "kprobe_events", text, O_APPEND);
		}
		return;
	}
	if (!is_user(first) && !(functions = fopen(list, "re")))
		fail("%s: %s", list, strerror(errno));
	while (made < count && !problem[0]) {
		if (is_user(first)) {
			snprintf(text, sizeof(text), "p:others/o%ld %s:0x%llx", made, own_path(),
				 (unsigned long long)file_offset((uint64_t)(uintptr_t)u_others) + (uint64_t)made);
		} else if (!fgets(name, sizeof(name), functions)) {
			fail("there are fewer than %ld functions to probe", count);
			break;
		} else if (strncmp(name, "acpi_", 5)) {
			continue;
		} else {
			name[strcspn(name, " \n")] = 0;
			snprintf(text, sizeof(text), "p:others/o%ld %s%s", made, name,
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
		put("events/others/enable", "1", 0);
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

/* How many frames the first recorded stack has, and what each instance's ring buffer says of losses. */
static void print_buffers(int instances)
{
	static char text[1 << 16];
	int frames = 0;

	for (int i = 0; i < instances && !frames; i++) {
		const char *at = strstr(get(in_instance(i, "trace%s", ""), text, sizeof(text)), "<stack trace>");

		for (at = at ? strchr(at, '\n') : NULL; at && !strncmp(at, "\n => ", 5); at = strchr(at + 1, '\n'))
			frames++;
	}
	printf(", \"frames\": %d, \"buffers\": [", frames);
	for (int i = 0; i < instances; i++) {
		get(in_instance(i, "per_cpu/cpu0/stats%s", ""), text, sizeof(text));
		printf("%s{\"entries\": %lld, \"overrun\": %lld, \"dropped\": %lld}", i ? ", " : "",
		       number_after(text, "entries: "), number_after(text, "overrun: "),
		       number_after(text, "dropped events: "));
	}
	printf("]");
}

/* hist: what was lost because the table was full, over all consumers. */
static long long hist_drops(void)
{
	static char text[1 << 17];
	long long drops = 0;

	for (int i = 0; i < n_probes; i++)
		for (int c = 0; c < probes[i].n_consumers; c++)
			if (probes[i].consumers[c].hist[0])
				drops += number_after(get(in_instance(c, "events/%s/hist", probes[i].event), text,
							  sizeof(text)), "Dropped: ");
	return drops;
}

static void print_probes(void)
{
	printf(", \"probes\": [");
	for (int i = 0; i < n_probes; i++) {
		const struct probe *probe = &probes[i];

		printf("%s{\"firings\": %llu, \"hits\": %lld, \"misses\": %lld, \"passes\": [", i ? ", " : "",
		       (unsigned long long)probe->firings, probe->hits, probe->misses);
		for (int c = 0; c < probe->n_consumers; c++)
			printf("%s%llu", c ? ", " : "", (unsigned long long)probe->consumers[c].passed);
		printf("]}");
	}
	printf("]");
}

/* Without probes, then with firings counted: what a prediction is made from. */
static void measure_plain(const struct run *run, uint64_t *plain)
{
	uint64_t counted[MAX_BATCHES];
	int syscalls, switches;

	batches(run, plain);
	define_all();
	start_counting(); /* an open counter costs something even while it is off: none before here */
	syscalls = perf_tracepoint("raw_syscalls/sys_enter");
	switches = perf_tracepoint("sched/sched_switch");
	if (problem[0])
		return;
	/* All at once, so that none counts what the others do. */
	prctl(PR_TASK_PERF_EVENTS_ENABLE);
	batches(run, counted);
	prctl(PR_TASK_PERF_EVENTS_DISABLE);
	printf(", \"syscalls\": %llu, \"switches\": %llu", (unsigned long long)perf_count(syscalls),
	       (unsigned long long)perf_count(switches));
	for (int i = 0; i < n_probes; i++) {
		if (probes[i].counter > 0)
			probes[i].firings = perf_count(probes[i].counter);
		for (int c = 0; c < probes[i].n_consumers; c++)
			if (probes[i].consumers[c].passes > 0)
				probes[i].consumers[c].passed = perf_count(probes[i].consumers[c].passes);
	}
	close(syscalls);
	close(switches);
	stop_all();
}

static void execute(struct run *run)
{
	uint64_t plain[MAX_BATCHES] = { 0 }, took[MAX_BATCHES] = { 0 };
	int instances = 1, lap = -1;
	pid_t drain;

	for (int i = 0; i < n_probes; i++)
		instances = probes[i].n_consumers > instances ? probes[i].n_consumers : instances;
	printf("{\"run\": \"%s\", \"script\": \"%s\", \"rounds\": %ld", run->name, echo, run->rounds);
	if (run->check)
		measure_plain(run, plain);
	if (!problem[0])
		define_all();
	if (!problem[0])
		others(run->others, false);
	put("options/record-cmd", run->cmdlines ? "1" : "0", 0);
	if (!problem[0])
		start_all();
	if (!problem[0] && run->buffer) {
		char text[16];

		snprintf(text, sizeof(text), "%ld", run->buffer);
		put("buffer_size_kb", text, 0);
	}
	for (int i = 0; i < instances && !problem[0]; i++) /* what setting up left there */
		put(in_instance(i, "trace%s", ""), "", O_TRUNC);
	if (!problem[0]) {
		drain = start_drain(run->drain, instances);
		if (drain)
			sched_yield();
		lap = laps++;
		roi_lap_begin();
		batches(run, took);
		roi_lap_end();
		if (drain) {
			drained->stop = 1;
			TEMP_FAILURE_RETRY(waitpid(drain, NULL, 0));
		}
		for (int i = 0; i < n_probes; i++)
			if (probes[i].ring) /* records of one size, but with stacks */
				probes[i].firings = *(volatile uint64_t *)(probes[i].ring + 1024);
		read_hits();
		if (run->check)
			print_series("plain", run, plain);
		print_series("took", run, took);
		print_probes();
		printf(", \"drops\": %lld, \"wakes\": %ld, \"pages\": %ld", hist_drops(), drained->wakes, drained->pages);
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
	drained = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
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
