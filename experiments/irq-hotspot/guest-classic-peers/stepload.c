// SPDX-License-Identifier: MIT
/*
 * stepload WORK: a load in step with the timer tick, and what /proc/profile
 * counts of it, as one line of JSON.
 *
 * WORK is the attribute of the krepro-edu driver that loops in the kernel
 * (krepro_edu_task_work). Each cycle is as long as the tick's period: first a
 * share of it (the duty) of these loops, then reads of /dev/zero. The cycle
 * begins at a chosen phase of the tick, and is repeated. Both parts are code of
 * the kernel with interrupts on, so that each tick takes a sample of one of them.
 *
 *   cell:  tick ... begin of the cycles, in user mode | CYCLES cycles, a lap |
 *          in user mode until the tick is over | copy of the buffer
 *
 * Ticks outside of the lap fall into user mode, of which they take no sample. So a
 * cell has exactly CYCLES ticks. Of other samplers some moments may fall into the
 * copying, which is a part in 20 of a period.
 *
 * KREPRO_TICK_JITTER=on: samples at random moments (kernel.profile_jitter).
 */
#include "krepro.h"
#include "krepro-roi.h"

#define PROFILE "/proc/profile"
#define JITTER	"/proc/sys/kernel/profile_jitter"

enum {
	PERIOD_NS = 10000000, /* HZ=100, in timers of high resolution: exactly */
	PHASES = 20,
	CYCLES = 20,
	LOOKS = 16,
	CALIBRATIONS = 8,
	CALIBRATION_LOOPS = 20000,
	CHUNK = 4096,
	MARGIN_NS = 100000, /* the tick's own work, and more */
};

static const unsigned int duties[] = { 10, 50, 95 }; /* percent */

static int work_fd, zero_fd, profile_fd;
static uint32_t *before, *after;
static size_t counters;

static void spin_until(uint64_t until)
{
	while (now_ns() < until)
		;
}

static uint64_t coarse_ns(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_MONOTONIC_COARSE, &now))
		die_errno("clock_gettime");
	return (uint64_t)now.tv_sec * NSEC_PER_SEC + (uint64_t)now.tv_nsec;
}

/* When some tick was: the coarse clock steps in each. Of several, the one that was noticed soonest in its period. */
static uint64_t moment_of_a_tick(void)
{
	uint64_t first = 0, least = UINT64_MAX;

	for (int i = 0; i < LOOKS; i++) {
		uint64_t last = coarse_ns(), now, offset;

		while (coarse_ns() == last)
			;
		now = now_ns();
		if (!i)
			first = now - PERIOD_NS / 2; /* so that no offset is near the ends of a period */
		offset = (now - first) % PERIOD_NS;
		least = offset < least ? offset : least;
	}
	return first + least;
}

static double loop_ns(void)
{
	uint64_t best[2] = { UINT64_MAX, UINT64_MAX };

	for (int i = 0; i < 2 * CALIBRATIONS; i++) {
		uint64_t begin = now_ns(), took;

		put_number(work_fd, "work", i % 2 ? CALIBRATION_LOOPS : 0);
		took = now_ns() - begin;
		best[i % 2] = took < best[i % 2] ? took : best[i % 2];
	}
	if (best[1] <= best[0])
		die("%d loops take no time", CALIBRATION_LOOPS);
	return (double)(best[1] - best[0]) / CALIBRATION_LOOPS;
}

static void copy_profile(uint32_t *words)
{
	if (read_all(profile_fd, PROFILE, words, (counters + 1) * sizeof(*words)) != (counters + 1) * sizeof(*words))
		die("%s: its size has changed", PROFILE);
}

static void run_cycles(uint64_t begin, uint64_t loops)
{
	static char buffer[CHUNK];

	for (unsigned int cycle = 1; cycle <= CYCLES; cycle++) {
		uint64_t end = begin + (uint64_t)cycle * PERIOD_NS;

		put_number(work_fd, "work", loops);
		while (now_ns() < end)
			if (read(zero_fd, buffer, CHUNK) != CHUNK)
				die_errno("/dev/zero");
	}
}

/* The first moment of this phase after `now`, in 1/(2 PHASES) of a period. */
static uint64_t next_moment(uint64_t tick, uint64_t now, unsigned int phase)
{
	uint64_t offset = (uint64_t)phase * PERIOD_NS / (2 * PHASES);

	return tick + ((now - tick) / PERIOD_NS + 1) * PERIOD_NS + offset;
}

static void cell(uint64_t tick, unsigned int phase, unsigned int duty, double per_loop, bool first)
{
	uint64_t loops = (uint64_t)((double)duty * PERIOD_NS / 100 / per_loop), begin, finish;
	const char *separator = "";
	uint32_t *swap;

	begin = next_moment(tick, now_ns(), phase);
	spin_until(begin);
	roi_lap_begin();
	run_cycles(begin, loops);
	roi_lap_end();
	finish = now_ns();
	spin_until(next_moment(tick, finish, 0) + MARGIN_NS);
	copy_profile(after);

	printf("%s\n {\"phase\": %u, \"duty\": %u, \"loops\": %llu, \"late_ns\": %lld, \"counts\": [", first ? "" : ",",
	       phase, duty, (unsigned long long)loops, (long long)(finish - begin) - (long long)CYCLES * PERIOD_NS);
	for (size_t i = 1; i <= counters; i++)
		if (after[i] != before[i]) {
			printf("%s[%zu, %u]", separator, i - 1, after[i] - before[i]);
			separator = ", ";
		}
	printf("]}");
	swap = before;
	before = after;
	after = swap;
}

int main(int argc, char **argv)
{
	const char *jitter = getenv("KREPRO_TICK_JITTER");
	uint64_t begin = now_ns(), tick;
	bool on = jitter && !strcmp(jitter, "on");
	double per_loop;
	off_t size;

	if (argc != 2)
		die_usage("usage: %s WORK", program_invocation_short_name);
	work_fd = open_or_die(argv[1], O_WRONLY);
	zero_fd = open_or_die("/dev/zero", O_RDONLY);
	profile_fd = open_or_die(PROFILE, O_RDONLY);
	size = lseek(profile_fd, 0, SEEK_END);
	if (size < (off_t)(2 * sizeof(*before)))
		die("%s: its size is unknown", PROFILE);
	counters = (size_t)size / sizeof(*before) - 1;
	before = malloc((size_t)size);
	after = malloc((size_t)size);
	if (!before || !after)
		die_errno("two copies of %s", PROFILE);
	memset(after, 0xff, (size_t)size); /* fault the pages in now */

	per_loop = loop_ns();
	tick = moment_of_a_tick();
	if (on)
		put_text(JITTER, "1");
	copy_profile(before);
	printf("{\"program\": \"stepload\", \"period_ns\": %d, \"phases\": %d, \"cycles\": %d, \"loop_ns\": %.3f, "
	       "\"jitter\": %s, \"step\": %u, \"cells\": [",
	       PERIOD_NS, 2 * PHASES, CYCLES, per_loop, on ? "true" : "false", before[0]);
	for (size_t d = 0; d < sizeof(duties) / sizeof(duties[0]); d++)
		for (unsigned int p = 0; p < PHASES; p++)
			cell(tick, 2 * p + 1, duties[d], per_loop, !d && !p);
	if (on)
		put_text(JITTER, "0");
	printf("],\n \"elapsed_ns\": %llu}\n", (unsigned long long)(now_ns() - begin));
	flush_or_die();
	return 0;
}
