// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A QEMU that a guest has taken over, played by a plugin: once the guest runs, it tries what would harm the host and
 * writes down how each went, a name and an errno (0: it could) to a line.
 *
 * Arguments: out (a folder), port (of a listener on the host's loopback), pid (of a process of the host), home (a
 * folder of the host, without the first slash), last (what is tried at the end).
 */
#include "qemu.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static char folder[512], home[512], last[16];
static int port, victim, done;
static FILE *report;

static void tell(const char *what, int result)
{
	fprintf(report, "%s %d\n", what, result < 0 ? errno : 0);
}

static void try_open(const char *what, const char *name, int flags)
{
	char path[1024];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", home, name);
	fd = open(path, flags, 0600);
	tell(what, fd);
	if (fd >= 0)
		close(fd);
}

static void try_connect(const char *what, const char *address, int to)
{
	struct sockaddr_in where = { .sin_family = AF_INET, .sin_port = htons(to) };
	struct timeval limit = { .tv_sec = 3 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, address, &where.sin_addr);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	tell(what, fd < 0 ? fd : connect(fd, (struct sockaddr *)&where, sizeof(where)));
	if (fd >= 0)
		close(fd);
}

/* What QEMU's filter kills for: one a run. */
static void last_words(void)
{
	pid_t child = 0;

	fprintf(report, "last 1\n");
	fflush(report);
	if (!strcmp(last, "setuid"))
		tell(last, setuid(1));
	if (!strcmp(last, "mount"))
		tell(last, mount("none", "/dev", "tmpfs", 0, NULL));
	if (!strcmp(last, "priority"))
		tell(last, setpriority(PRIO_PROCESS, 0, 5));
	if (!strcmp(last, "execve"))
		tell(last, execl("/proc/self/exe", "qemu", "--version", NULL));
	if (!strcmp(last, "fork") || !strcmp(last, "vfork")) {
		child = last[0] == 'v' ? vfork() : fork();
		if (child == 0)
			_exit(0);
		tell(last, child);
		waitpid(child, NULL, 0);
	}
}

static void attack(void)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/report", folder);
	report = fopen(path, "w");
	if (!report)
		abort();
	try_open("read", "secret", O_RDONLY);
	try_open("write", "secret", O_WRONLY);
	try_open("create", "planted", O_WRONLY | O_CREAT);
	tell("passwd", open("/etc/passwd", O_RDONLY));
	tell("root", open("/root/.bashrc", O_RDONLY));
	try_connect("loopback", "127.0.0.1", port);
	try_connect("address", "192.0.2.1", 80);
	tell("interfaces", if_nametoindex("eth0") ? 0 : -1);
	tell("kill", kill(victim, 0));
	tell("ptrace", (int)ptrace(PTRACE_ATTACH, victim, NULL, NULL));
	last_words();
	fclose(report);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	(void)tb;
	if (!__atomic_exchange_n(&done, 1, __ATOMIC_RELAXED))
		attack();
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		sscanf(argv[i], "out=%511s", folder);
		sscanf(argv[i], "port=%d", &port);
		sscanf(argv[i], "pid=%d", &victim);
		sscanf(argv[i], "last=%15s", last);
		if (sscanf(argv[i], "home=%510s", home + 1) == 1)
			home[0] = '/';
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	return 0;
}
