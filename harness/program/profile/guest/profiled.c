// SPDX-License-Identifier: MIT
/*
 * profiled STATS COMMAND [ARGUMENT...]: run a command as one lap of the workload, which the oracle counts, and write
 * how it ended, as one line of JSON; its exit status is the command's.
 *
 * The lap begins when the command's process, which is there already, is let go, and ends when it is known to have
 * ended. So that two runs are the same, none of its addresses is random, and of the environment, which lies on its
 * stack, only PATH is left. SIGTERM is passed on.
 *
 * What a kernel goes on with after its boot, tests of its ciphers and the like, is none of the command's: it has
 * REST_NS to end. An idle guest under the virtual clock spends none of the host's time.
 */
#include "krepro.h"
#include "krepro-roi.h"

#include <sys/personality.h>

#define REST_NS (20 * NSEC_PER_SEC)

static volatile pid_t command;

static void pass_on(int signal)
{
	if (command > 0)
		kill(command, signal);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = pass_on };
	const char *path = getenv("PATH");
	struct held_command held;
	int stats, status;

	exit_usage = EXIT_TOOL; /* 2 may be the command's */
	if (argc < 3)
		die_usage("usage: profiled STATS COMMAND [ARGUMENT...]");
	stats = create_or_die(argv[1]);
	if (personality(ADDR_NO_RANDOMIZE) < 0)
		die_errno("personality");
	path = strdup(path ? path : "/usr/sbin:/usr/bin:/sbin:/bin");
	if (!path || clearenv() || setenv("PATH", path, 1))
		die_errno("the environment");
	held = hold_command(argv + 2, NULL, 0);
	command = held.pid;
	if (sigaction(SIGTERM, &action, NULL))
		die_errno("sigaction");
	sleep_ns(REST_NS);
	roi_lap_begin();
	release_command(&held);
	status = shell_status(wait_for_command(held.pid, NULL));
	roi_lap_end();
	if (dprintf(stats, "{\"exit_status\": %d}\n", status) < 0)
		die_errno("%s", argv[1]);
	return status;
}
