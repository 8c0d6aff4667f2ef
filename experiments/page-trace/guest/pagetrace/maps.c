// SPDX-License-Identifier: MIT
#include "maps.h"

#include <sys/ptrace.h>
#include <sys/wait.h>

static const char *maps_path;
static int maps_file = -1;

void maps_watch(pid_t pid, const char *path)
{
	maps_path = path;
	maps_file = create_or_die(path);
	if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)PTRACE_O_TRACEEXIT))
		die_errno("watching the command's end");
}

/* Its memory is still there: the kernel lets go of it when it goes on. */
static void write_maps(pid_t pid)
{
	char path[32], buffer[4096];
	ssize_t got;
	int maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = open_or_die(path, O_RDONLY);
	while ((got = read(maps, buffer, sizeof(buffer))) > 0)
		write_or_die(maps_file, maps_path, buffer, (size_t)got);
	if (got < 0)
		die_errno("%s", path);
	close(maps);
}

void maps_stopped(pid_t pid, int wait_status)
{
	const int event = wait_status >> 16, number = WSTOPSIG(wait_status);
	/* Stopped by a signal, not only on the way to one: it stays so until SIGCONT. */
	const bool stays = event == PTRACE_EVENT_STOP && number != SIGTRAP;

	if (event == PTRACE_EVENT_EXIT)
		write_maps(pid);
	if (ptrace(stays ? PTRACE_LISTEN : PTRACE_CONT, pid, NULL, (void *)(intptr_t)(event ? 0 : number)) &&
	    errno != ESRCH)
		die_errno("letting the command go on");
}
