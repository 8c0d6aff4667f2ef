// SPDX-License-Identifier: MIT
/* Interrupts of the edu device at random moments, and work in the gaps. */
#include "edu.h"
#include "loads.h"

enum {
	CALIBRATIONS = 8,
	CALIBRATION_LOOPS = 2000,
	USER_CHUNK = 512,
};

static volatile uint64_t sink; /* keeps the user work from being optimised away */

/* -ln(u), u uniform in (0, 1]: a unit exponential, without libm. */
static double exponential(uint64_t *state)
{
	double u = (double)((random_u64(state) >> 11) + 1) / 9007199254740992.0; /* 2^53 */
	double z, square, term, sum = 0;
	int halvings = 0;

	for (; u < 0.5; u *= 2)
		halvings++;
	/* ln u = 2 artanh((u - 1) / (u + 1)), |z| <= 1/3 */
	z = (u - 1) / (u + 1);
	square = z * z;
	term = z;
	for (int k = 1; k < 26; k += 2, term *= square)
		sum += term / k;
	return halvings * 0.69314718055994531 - 2 * sum;
}

static void user_work_until(uint64_t until, uint64_t *state)
{
	while (now_ns() < until) {
		uint64_t x = *state | 1;

		for (int i = 0; i < USER_CHUNK; i++)
			x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		sink = x;
	}
}

/* Shortest of a few timings: interrupts of others only ever add to one. */
static uint64_t shortest_raise_ns(const struct edu *edu)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < CALIBRATIONS; i++) {
		uint64_t begin = now_ns(), took;

		edu_raise_user(edu);
		took = now_ns() - begin;
		best = took < best ? took : best;
	}
	return best;
}

static uint64_t shortest_work_ns(const struct edu *edu, uint64_t loops)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < CALIBRATIONS; i++) {
		uint64_t begin = now_ns(), took;

		edu_work(edu, loops);
		took = now_ns() - begin;
		best = took < best ? took : best;
	}
	return best;
}

void run_edu(const struct options *options)
{
	uint64_t state = options->seed, handled, begin, finish, next, bare_ns, full_ns, empty_ns, work_ns;
	uint64_t from_user = 2 * CALIBRATIONS, from_kernel = 0, late = 0, work_loops = 0;
	double mean = (double)NSEC_PER_SEC / (double)options->rate, loop_ns;
	/* 0..100: how many of a hundred raises come from user mode. */
	uint64_t user_raises = !strcmp(options->from, "user") ? 100 : !strcmp(options->from, "kernel") ? 0 : 50;
	struct edu edu;

	if (user_raises == 50 && strcmp(options->from, "mixed"))
		die_usage("--from: %s is not user, kernel or mixed", options->from);
	edu_open(&edu);
	handled = get_number(edu.handled, "handled");
	put_number(edu.irqs_on, "irqs_on", options->irqs_on);

	/* What one handler run and one loop in task context take, each less its surroundings. */
	put_number(edu.handler_loops, "handler_loops", 0);
	bare_ns = shortest_raise_ns(&edu);
	put_number(edu.handler_loops, "handler_loops", options->loops);
	full_ns = shortest_raise_ns(&edu);
	empty_ns = shortest_work_ns(&edu, 0);
	work_ns = shortest_work_ns(&edu, CALIBRATION_LOOPS);
	work_loops = (uint64_t)CALIBRATIONS * CALIBRATION_LOOPS;
	loop_ns = work_ns > empty_ns ? (double)(work_ns - empty_ns) / CALIBRATION_LOOPS : 1;

	begin = now_ns();
	finish = begin + options->seconds * NSEC_PER_SEC;
	for (next = begin;;) {
		double gap = exponential(&state) * mean;
		uint64_t now = now_ns();

		gap = gap < mean / 20 ? mean / 20 : gap > 5 * mean ? 5 * mean : gap;
		next += (uint64_t)gap;
		if (next > finish)
			break;
		if (next <= now) { /* the handlers alone take longer than the gaps */
			late++;
			next = now;
		} else if (random_below(&state, 100) < options->user_work) {
			user_work_until(next, &state);
		} else {
			uint64_t loops = (uint64_t)((double)(next - now) / loop_ns);

			edu_work(&edu, loops);
			work_loops += loops;
		}
		if (random_below(&state, 100) < user_raises) {
			edu_raise_user(&edu);
			from_user++;
		} else {
			edu_raise_kernel(&edu);
			from_kernel++;
		}
	}
	/* On SMP the last one may still run on another CPU. */
	for (uint64_t limit = now_ns() + NSEC_PER_SEC; now_ns() < limit;)
		if (get_number(edu.handled, "handled") - handled >= from_user + from_kernel)
			break;
	printf("{\"program\": \"irqload\", \"mode\": \"edu\", \"seed\": %llu, \"rate\": %llu, "
	       "\"handler_loops\": %llu, \"irqs_on\": %s, \"raised_user\": %llu, \"raised_kernel\": %llu, "
	       "\"calibration_raises\": %d, \"handled\": %llu, \"late\": %llu, \"handler_ns\": %llu, "
	       "\"work_loops\": %llu, \"loop_ns\": %.3f, \"elapsed_ns\": %llu}\n",
	       (unsigned long long)options->seed, (unsigned long long)options->rate,
	       (unsigned long long)options->loops, options->irqs_on ? "true" : "false",
	       (unsigned long long)from_user, (unsigned long long)from_kernel, 2 * CALIBRATIONS,
	       (unsigned long long)(get_number(edu.handled, "handled") - handled), (unsigned long long)late,
	       (unsigned long long)(full_ns > bare_ns ? full_ns - bare_ns : 0), (unsigned long long)work_loops,
	       loop_ns, (unsigned long long)(now_ns() - begin));
	put_number(edu.handler_loops, "handler_loops", 0);
	put_number(edu.irqs_on, "irqs_on", 0);
}
