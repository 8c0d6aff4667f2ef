// SPDX-License-Identifier: MIT
/* Commands that a program runs, and the CPU that it runs on. */
#include "krepro.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

void become(char *const command[])
{
	int error;

	execvp(command[0], command);
	error = errno;
	complain(error, "%s", command[0]);
	_exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN);
}

static pid_t fork_or_die(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die_errno("fork");
	return pid;
}

static void prepare_child(const sigset_t *mask, int death_signal)
{
	if (death_signal)
		prctl(PR_SET_PDEATHSIG, death_signal);
	if (mask)
		sigprocmask(SIG_SETMASK, mask, NULL);
}

pid_t start_command(char *const command[], const sigset_t *mask, int death_signal)
{
	pid_t pid = fork_or_die();

	if (pid)
		return pid;
	prepare_child(mask, death_signal);
	become(command);
}

struct held_command hold_command(char *const command[], const sigset_t *mask, int death_signal)
{
	struct held_command held;
	int ends[2];
	char go;

	if (pipe2(ends, O_CLOEXEC))
		die_errno("pipe");
	held.go = ends[1];
	held.pid = fork_or_die();
	if (held.pid) {
		close(ends[0]);
		return held;
	}
	close(ends[1]);
	prepare_child(NULL, death_signal);
	if (read(ends[0], &go, 1) != 1)
		_exit(EXIT_TOOL);
	prepare_child(mask, 0);
	become(command);
}

void release_command(const struct held_command *held)
{
	if (write(held->go, "", 1) != 1)
		die_errno("the command's process %d is gone", held->pid);
}

int wait_for_command(pid_t pid, struct rusage *usage)
{
	int status;

	while (wait4(pid, &status, 0, usage) < 0)
		if (errno != EINTR)
			die_errno("waiting for the command");
	return status;
}

int shell_status(int wait_status)
{
	return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

bool pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}
