// SPDX-License-Identifier: MIT
/*
 * ptsetid: the user of a set-user-ID program of root that a user's process executes, traced by that user and not. Prints
 * "untraced UID" and "traced UID"; root only. The device is opened to users for as long as this runs.
 */
#include "trace.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define COPY "/tmp/ptsetid-root"

enum { USER = 1000 };

static void copy_self(void)
{
	static char buffer[1 << 16];
	int from = open_or_die("/proc/self/exe", O_RDONLY), to = create_or_die(COPY);
	ssize_t got;

	while ((got = read(from, buffer, sizeof(buffer))) > 0)
		write_or_die(to, COPY, buffer, (size_t)got);
	if (got < 0 || fchown(to, 0, 0) || fchmod(to, 04755))
		die_errno(COPY);
	close(to);
	close(from);
}

/* As a user: trace a child, or not, and let it execute the program. */
static void as_user(bool traced)
{
	struct held_command held;
	int device = -1;

	if (setresgid(USER, USER, USER) || setresuid(USER, USER, USER))
		die_errno("becoming a user");
	/* Having changed its user, a process is not its user's to trace until it says so. */
	if (prctl(PR_SET_DUMPABLE, 1))
		die_errno("dumpable");
	held = hold_command((char *[]){ COPY, traced ? "traced" : "untraced", NULL }, NULL, 0);
	if (traced) {
		int error;

		device = open_device();
		error = start_trace(device, held.pid, 0);
		if (error)
			die_with(EXIT_TOOL, error, "starting a trace");
	}
	release_command(&held);
	_exit(shell_status(wait_for_command(held.pid, NULL)));
}

int main(int argc, char **argv)
{
	int status = 0;

	if (argc == 2) {
		printf("%s %u\n", argv[1], (unsigned int)geteuid());
		return 0;
	}
	copy_self();
	if (chmod("/dev/page_trace", 0666))
		die_errno("/dev/page_trace");
	for (int traced = 0; traced < 2; traced++) {
		pid_t pid = fork();

		if (!pid)
			as_user(traced);
		status |= shell_status(wait_for_command(pid, NULL));
	}
	if (chmod("/dev/page_trace", 0600) || unlink(COPY))
		die_errno("cleaning up");
	return status;
}
