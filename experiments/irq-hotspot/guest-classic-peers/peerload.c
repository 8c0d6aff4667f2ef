// SPDX-License-Identifier: MIT
/*
 * peerload EDU: a fixed amount of work, whatever it takes. RAISES interrupts of
 * the edu device out of kernel mode, whose handler executes HANDLER_LOOPS loops;
 * before each, loops in the kernel and in user mode, as many as a seed decides.
 * One line of JSON. EDU is the device's folder in sysfs.
 *
 * The work is a lap of the oracle: more instructions than those of another run
 * are a profiler's.
 */
#include "krepro.h"
#include "krepro-roi.h"

#include <limits.h>

enum {
	RAISES = 1000,
	HANDLER_LOOPS = 20000,
	MOST_WORK = 40000,
	MOST_USER = 2000,
};

static volatile uint64_t sink; /* keeps the user work from being optimised away */

static int attribute(const char *folder, const char *name, int flags)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		die("%s: path too long", folder);
	return open_or_die(path, flags);
}

int main(int argc, char **argv)
{
	uint64_t state = default_seed(), begin, took, handled;
	int handler_loops, handled_fd, raise_fd, work_fd;

	if (argc != 2)
		die_usage("usage: %s EDU", program_invocation_short_name);
	handler_loops = attribute(argv[1], "handler_loops", O_RDWR);
	handled_fd = attribute(argv[1], "handled", O_RDONLY);
	raise_fd = attribute(argv[1], "raise", O_WRONLY);
	work_fd = attribute(argv[1], "work", O_WRONLY);
	handled = get_number(handled_fd, "handled");
	put_number(handler_loops, "handler_loops", HANDLER_LOOPS);
	begin = now_ns();
	roi_lap_begin();
	for (int i = 0; i < RAISES; i++) {
		uint32_t user = (uint32_t)random_below(&state, MOST_USER);
		uint64_t x = (uint64_t)i;

		put_number(work_fd, "work", random_below(&state, MOST_WORK));
		for (uint32_t n = 0; n < user; n++)
			x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		sink = x;
		put_number(raise_fd, "raise", 1);
	}
	roi_lap_end();
	took = now_ns() - begin;
	put_number(handler_loops, "handler_loops", 0);
	printf("{\"program\": \"peerload\", \"raised_user\": 0, \"raised_kernel\": %d, \"handled\": %llu, "
	       "\"handler_loops\": %d, \"elapsed_ns\": %llu}\n",
	       RAISES, (unsigned long long)(get_number(handled_fd, "handled") - handled), HANDLER_LOOPS,
	       (unsigned long long)took);
	flush_or_die();
	return 0;
}
