// SPDX-License-Identifier: MIT
#include "maps.h"

#include <sys/ptrace.h>
#include <sys/wait.h>

static const char *maps_path;
static pid_t first;

void maps_watch(pid_t pid, const char *path)
{
	const long events = PTRACE_O_TRACEEXIT | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE;

	maps_path = path;
	first = pid;
	close(create_or_die(path));
	if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)events))
		die_errno("watching the command's end");
}

/* A thread's: its process has, or had, the same. */
static bool is_process(pid_t pid)
{
	char path[32], line[64];
	bool found = false;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	status = fopen(path, "re");
	while (status && !found && fgets(line, sizeof(line), status))
		found = !strncmp(line, "Tgid:", 5) && atoi(line + 5) == pid;
	if (status)
		fclose(status);
	return found;
}

/* Its memory is still there: the kernel lets go of it when it goes on. */
static void write_maps(pid_t pid)
{
	char path[32], target[4096], buffer[4096];
	int maps, file;
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	if (pid == first)
		snprintf(target, sizeof(target), "%s", maps_path);
	else
		snprintf(target, sizeof(target), "%s.%d", maps_path, pid);
	maps = open_or_die(path, O_RDONLY);
	file = create_or_die(target);
	while ((got = read(maps, buffer, sizeof(buffer))) > 0)
		write_or_die(file, target, buffer, (size_t)got);
	if (got < 0)
		die_errno("%s", path);
	close(maps);
	close(file);
}

void maps_stopped(pid_t pid, int wait_status)
{
	const int event = wait_status >> 16, number = WSTOPSIG(wait_status);
	/* Stopped by a signal, not only on the way to one: it stays so until SIGCONT. */
	const bool stays = event == PTRACE_EVENT_STOP && number != SIGTRAP;

	if (event == PTRACE_EVENT_EXIT && is_process(pid))
		write_maps(pid);
	if (ptrace(stays ? PTRACE_LISTEN : PTRACE_CONT, pid, NULL, (void *)(intptr_t)(event ? 0 : number)) &&
	    errno != ESRCH)
		die_errno("letting the command go on");
}
