// SPDX-License-Identifier: MIT
/*
 * in-place COMMAND [ARGUMENT...]: run a command whose addresses are the same each time: none is random, and of the
 * environment, which lies on its stack, only PATH and the seed are left.
 */
#include "krepro.h"

#include <sys/personality.h>

int main(int argc, char **argv)
{
	const char *path = getenv("PATH"), *seed = getenv("KREPRO_SEED");

	exit_usage = EXIT_TOOL; /* 2 may be the command's */
	if (argc < 2)
		die_usage("usage: in-place COMMAND [ARGUMENT...]");
	if (personality(ADDR_NO_RANDOMIZE) < 0)
		die_errno("personality");
	path = strdup(path ? path : "/usr/sbin:/usr/bin:/sbin:/bin");
	seed = strdup(seed ? seed : "1");
	if (!path || !seed || clearenv() || setenv("PATH", path, 1) || setenv("KREPRO_SEED", seed, 1))
		die_errno("the environment");
	become(argv + 1);
}
