// SPDX-License-Identifier: MIT
/*
 * shimload: something on one CPU to be looked at.
 *
 *   shimload switch  [OPTION VALUE...]   threads that hand over to each other all the time: --how futex, pipe, yield
 *   shimload check   [OPTION VALUE...]   threads that compare the slot of /dev/ppid_map with their own ids, and yield
 *   shimload known   [OPTION VALUE...]   chunks of a loop of known length
 *   shimload pattern [OPTION VALUE...]   busy for --busy-us, asleep for --idle-us
 *   shimload phases  [OPTION VALUE...]   three threads in turn, each with another mix of instructions
 *   shimload gaps    [OPTION VALUE...]   half the time two threads that hold the CPU for 1 to 128 us at a time, then one
 *                                        that sleeps for 1 to 1024 us at a time, as many of each length as of its double
 *
 * Options: --cpu N (1), --seconds S (1), --threads N (2), --how WORD (futex), --every-us N (0: time from hand-over to
 * hand-over, at least), --busy-us N (2000), --idle-us N (2000), --out PREFIX: PREFIX.json and PREFIX.bin instead of JSON
 * on standard output.
 */
#include "krepro.h"
#include "clock.h"
#include "out.h"
#include "ppid.h"
#include "work.h"

#include <ctype.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>

struct thread {
	pthread_t thread;
	int number;
	pid_t tid;
	uint64_t handed, checks, wrong, first_wrong;
};

static struct {
	int cpu, threads;
	double seconds;
	const char *how, *out;
	uint64_t busy_us, idle_us, every_us;
} options = { .cpu = 1, .threads = 2, .seconds = 1, .how = "futex", .busy_us = 2000, .idle_us = 2000 };

static struct thread threads[MAX_THREADS];
static struct chunk *chunks;
static uint64_t n_chunks, chunks_lost;
static double hz;
static uint64_t stop_at;
static _Atomic int turn;
static uint64_t every; /* cycles */
static _Atomic uint64_t due;
static int pipes[MAX_THREADS][2];
static const struct ppid_line *line;

static _Noreturn void usage(void)
{
	die_usage("usage: shimload switch|check|known|pattern|phases|gaps [--cpu N] [--seconds S] [--threads N] "
		  "[--how futex|pipe|yield] [--every-us N] [--busy-us N] [--idle-us N] [--out PREFIX]");
}

static void pin_or_die(int cpu)
{
	if (!pin(cpu))
		die_errno("CPU %d", cpu);
}

static void read_options(int argc, char **argv)
{
	for (int i = 2; i < argc; i += 2) {
		const char *name = argv[i], *value = argv[i + 1];
		char *end = "";
		uint64_t n = 0;

		if (!value)
			usage();
		if (!strcmp(name, "--how")) {
			options.how = value;
			if (strcmp(value, "yield") && strcmp(value, "futex") && strcmp(value, "pipe"))
				usage();
			continue;
		}
		if (!strcmp(name, "--out")) {
			options.out = value;
			continue;
		}
		if (!isdigit((unsigned char)*value))
			usage();
		if (!strcmp(name, "--seconds")) {
			options.seconds = strtod(value, &end);
			if (*end || !(options.seconds > 0 && options.seconds <= 86400))
				usage();
			continue;
		}
		n = strtoull(value, &end, 10);
		if (*end || n > 10000000)
			usage();
		if (!strcmp(name, "--cpu"))
			options.cpu = (int)n;
		else if (!strcmp(name, "--threads") && n >= 1 && n <= MAX_THREADS)
			options.threads = (int)n;
		else if (!strcmp(name, "--every-us"))
			options.every_us = n;
		else if (!strcmp(name, "--busy-us"))
			options.busy_us = n;
		else if (!strcmp(name, "--idle-us"))
			options.idle_us = n;
		else
			usage();
	}
}

static bool over(void)
{
	return clock_begin() >= stop_at;
}

static void note(uint64_t begin, enum kind kind, pid_t tid, uint64_t turns)
{
	if (n_chunks == MAX_CHUNKS) {
		chunks_lost++;
		return;
	}
	chunks[n_chunks++] = (struct chunk){ begin, clock_end(), kind, tid, turns * kind_instructions[kind], turns };
}

/* Turns of a kind that take about a millisecond here. */
static unsigned long turns_per_ms(enum kind kind)
{
	unsigned long turns = 1000;
	uint64_t begin, took;

	do {
		turns *= 2;
		begin = clock_begin();
		work(kind, turns);
		took = clock_end() - begin;
	} while ((double)took < hz / 1000 && turns < 1ul << 30);
	return (unsigned long)((double)turns * hz / 1000 / (double)took) + 1;
}

static void futex(_Atomic int *word, int op, int value)
{
	syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

/* Work until the next hand-over may be. One that comes late is not made up for: two would follow each other closely. */
static void await_due(void)
{
	do
		work(KIND_LOOP, 100);
	while (clock_begin() < due);
	due = clock_begin() + every;
}

static void *switch_main(void *argument)
{
	struct thread *me = argument;
	const int n = options.threads, next = (me->number + 1) % n;
	char byte = 0;

	pin_or_die(options.cpu);
	me->tid = own_tid();
	if (!strcmp(options.how, "yield")) {
		while (!over()) {
			await_due();
			sched_yield();
			me->handed++;
		}
	} else if (!strcmp(options.how, "futex")) {
		/* The word is whose turn it is. Who ends gives the turn on, so that all see the end. */
		for (bool last = false; !last;) {
			int now = turn;

			if (now != me->number) {
				futex(&turn, FUTEX_WAIT_PRIVATE, now);
				continue;
			}
			last = over();
			me->handed++;
			await_due();
			turn = next;
			futex(&turn, FUTEX_WAKE_PRIVATE, n);
		}
	} else {
		while (!over() && read(pipes[me->number][0], &byte, 1) == 1) {
			me->handed++;
			await_due();
			if (write(pipes[next][1], &byte, 1) != 1)
				break;
		}
		close(pipes[next][1]); /* whoever still reads sees the end */
	}
	return NULL;
}

static void *check_main(void *argument)
{
	struct thread *me = argument;
	uint64_t own;

	pin_or_die(options.cpu);
	me->tid = own_tid();
	own = (uint32_t)me->tid | (uint64_t)(uint32_t)getpid() << 32;
	while (!over()) {
		for (int i = 0; i < 100; i++) {
			uint64_t ids = line->ids;

			me->checks++;
			if (ids != own && !me->wrong++)
				me->first_wrong = ids;
		}
		sched_yield();
	}
	return NULL;
}

static void known(enum kind kind)
{
	unsigned long turns = turns_per_ms(kind);

	while (!over()) {
		uint64_t begin = clock_begin();

		work(kind, turns);
		note(begin, kind, threads[0].tid, turns);
	}
}

static void pattern(void)
{
	struct timespec nap = { (time_t)(options.idle_us / 1000000), (long)(options.idle_us % 1000000 * 1000) };

	while (!over()) {
		uint64_t begin = clock_begin(), until = begin + (uint64_t)((double)options.busy_us * 1e-6 * hz), turns = 0;

		for (; clock_begin() < until; turns += 1000)
			work(KIND_LOOP, 1000);
		note(begin, KIND_BUSY, threads[0].tid, turns);
		chunks[n_chunks - 1].instructions = 0; /* the clock was read in between */
		nanosleep(&nap, NULL);
	}
}

static void *phases_main(void *argument)
{
	struct thread *me = argument;
	const enum kind kind = (enum kind)me->number;
	unsigned long turns = 0;

	pin_or_die(options.cpu);
	me->tid = own_tid();
	for (bool last = false; !last;) {
		int now = turn;
		uint64_t begin;

		if (now != me->number) {
			futex(&turn, FUTEX_WAIT_PRIVATE, now);
			continue;
		}
		if (!me->handed++) {
			turns = turns_per_ms(kind); /* alone on the CPU */
		} else {
			begin = clock_begin();
			work(kind, 2 * turns);
			note(begin, kind, me->tid, 2 * turns);
		}
		last = over();
		turn = (me->number + 1) % 3;
		futex(&turn, FUTEX_WAKE_PRIVATE, 3);
	}
	return NULL;
}

/* Cycles of 1 us to 2^octaves us: an octave at random, and a length in it. */
static uint64_t random_cycles(unsigned int octaves)
{
	static _Thread_local uint64_t state;
	uint64_t ns;

	if (!state)
		state = 0x9e3779b97f4a7c15ull * (uint64_t)own_tid();
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	ns = 1000ull << state % octaves;
	ns += (state >> 32) % ns;
	return (uint64_t)((double)ns * 1e-9 * hz);
}

static void hold(uint64_t cycles)
{
	const uint64_t until = clock_begin() + cycles;

	while (clock_begin() < until)
		work(KIND_LOOP, 10);
}

static void *gaps_main(void *argument)
{
	struct thread *me = argument;
	const uint64_t half = clock_begin() + (stop_at - clock_begin()) / 2;

	pin_or_die(options.cpu);
	me->tid = own_tid();
	prctl(PR_SET_TIMERSLACK, 1);
	while (clock_begin() < half) {
		hold(random_cycles(7));
		sched_yield();
	}
	while (!me->number && !over()) {
		struct timespec nap = { 0, (long)((double)random_cycles(10) / hz * 1e9) };

		hold(random_cycles(5));
		nanosleep(&nap, NULL);
	}
	return NULL;
}

static void run_threads(void *(*run)(void *), int n)
{
	for (int i = 0; i < n; i++) {
		threads[i].number = i;
		errno = pthread_create(&threads[i].thread, NULL, run, &threads[i]);
		if (errno)
			die_errno("no thread");
	}
	for (int i = 0; i < n; i++)
		pthread_join(threads[i].thread, NULL);
}

static FILE *open_output(const char *suffix)
{
	return options.out ? open_out(options.out, suffix) : stdout;
}

static void report(const char *load, int n, struct clock_pair a, struct clock_pair b)
{
	uint64_t handed = 0, checks = 0, wrong = 0;
	const struct thread *first = NULL;
	FILE *out = open_output("json");

	fprintf(out, "{\"load\": \"%s\", \"cpu\": %d, \"pid\": %d, \"threads\": [", load, options.cpu, getpid());
	for (int i = 0; i < n; i++) {
		fprintf(out, "%s{\"tid\": %d}", i ? ", " : "", threads[i].tid);
		handed += threads[i].handed;
		checks += threads[i].checks;
		wrong += threads[i].wrong;
		if (threads[i].wrong && !first)
			first = &threads[i];
	}
	fputs("],\n ", out);
	clock_print_both(out, a, b);
	if (!strcmp(load, "switch"))
		fprintf(out, ",\n \"switches\": %llu, \"how\": \"%s\"", (unsigned long long)handed, options.how);
	if (!strcmp(load, "check")) {
		fprintf(out, ",\n \"checks\": %llu, \"wrong\": %llu, \"switches\": %llu, \"first_wrong\": ",
			(unsigned long long)checks, (unsigned long long)wrong, (unsigned long long)line->begun);
		if (first)
			fprintf(out, "{\"tid\": %d, \"pid\": %d, \"tgid\": %d}", first->tid, ppid_pid(first->first_wrong),
				ppid_tgid(first->first_wrong));
		else
			fputs("null", out);
	}
	fprintf(out, ",\n \"chunks\": %llu, \"chunks_lost\": %llu}\n", (unsigned long long)n_chunks,
		(unsigned long long)chunks_lost);
	if (out != stdout)
		fclose(out);
	if (options.out && n_chunks) {
		out = open_output("bin");
		fwrite(chunks, sizeof(*chunks), n_chunks, out);
		fclose(out);
	}
}

int main(int argc, char **argv)
{
	const char *load = argc > 1 ? argv[1] : "";
	struct clock_pair a, b;
	int n = 1;

	read_options(argc, argv);
	pin_or_die(options.cpu);
	threads[0].tid = own_tid();
	chunks = calloc(MAX_CHUNKS, sizeof(*chunks));
	if (!chunks)
		die("no memory");
	hz = clock_measure_hz();
	a = clock_pair_now();
	stop_at = a.tsc + (uint64_t)(options.seconds * hz);
	if (!strcmp(load, "switch")) {
		n = options.threads;
		every = (uint64_t)((double)options.every_us * 1e-6 * hz);
		for (int i = 0; i < n; i++)
			if (pipe(pipes[i]))
				usage();
		if (write(pipes[0][1], "", 1) != 1)
			usage();
		run_threads(switch_main, n);
	} else if (!strcmp(load, "check")) {
		line = ppid_map();
		if (!line)
			die_errno(PPID_DEVICE);
		line += options.cpu;
		n = options.threads;
		run_threads(check_main, n);
	} else if (!strcmp(load, "known")) {
		known(KIND_LOOP);
	} else if (!strcmp(load, "pattern")) {
		pattern();
	} else if (!strcmp(load, "phases")) {
		n = 3;
		run_threads(phases_main, n);
	} else if (!strcmp(load, "gaps")) {
		n = 2;
		run_threads(gaps_main, n);
	} else {
		usage();
	}
	b = clock_pair_now();
	report(load, n, a, b);
	return 0;
}
