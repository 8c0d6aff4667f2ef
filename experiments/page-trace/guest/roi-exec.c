// SPDX-License-Identifier: MIT
/* roi-exec COMMAND [ARGUMENT...]: run a command whose data pages the oracle records, from its first access on. */
#include "krepro.h"
#include "krepro-roi.h"

int main(int argc, char **argv)
{
	exit_usage = EXIT_TOOL; /* 2 may be the command's */
	if (argc < 2)
		die_usage("usage: roi-exec COMMAND [ARGUMENT...]");
	roi_select_exec();
	become(argv + 1);
}
