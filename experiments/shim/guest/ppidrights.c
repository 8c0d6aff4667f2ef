// SPDX-License-Identifier: MIT
/*
 * ppidrights CPU MODULE: what may be done to /dev/ppid_map, and what it says of a CPU without work and of one that is
 * offline, or could be plugged in and never was; as JSON. The module is switched off and on again.
 */
#include "krepro.h"
#include "ppid.h"

#include <ctype.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { MS = 1000000 };

static const char *name(int error)
{
	return error ? strerrorname_np(error) : "allowed";
}

static int error_of_put(const char *path, const char *text)
{
	return try_put_text(path, text, 0) ? 0 : errno;
}

static int error_of_open(int flags)
{
	int fd = open(PPID_DEVICE, flags | O_CLOEXEC), error = fd < 0 ? errno : 0;

	if (fd >= 0)
		close(fd);
	return error;
}

static int error_of_map(int protection, int flags)
{
	int fd = open(PPID_DEVICE, O_RDONLY | O_CLOEXEC), error;
	void *map = mmap(NULL, 4096, protection, flags, fd, 0);

	error = map == MAP_FAILED ? errno : 0;
	if (map != MAP_FAILED)
		munmap(map, 4096);
	close(fd);
	return error;
}

static void print_ids(const char *what, uint64_t ids)
{
	printf(" \"%s\": {\"pid\": %d, \"tgid\": %d},\n", what, ppid_pid(ids), ppid_tgid(ids));
}

/* A line that another CPU writes, after it has had time to. */
static uint64_t ids_of(const struct ppid_line *line)
{
	sleep_ns(100 * MS);
	return line->ids;
}

int main(int argc, char **argv)
{
	const struct ppid_line *map;
	char online[80], active[80];
	int cpu, seen = 0, error;
	bool possible, absent;
	uint64_t own;

	if (argc != 3 || !isdigit((unsigned char)*argv[1]) || atoi(argv[1]) < 1)
		die_usage("usage: ppidrights CPU MODULE, a CPU that can go offline");
	cpu = atoi(argv[1]);
	snprintf(online, sizeof(online), "/sys/devices/system/cpu/cpu%d/online", cpu);
	snprintf(active, sizeof(active), "/sys/module/%s/parameters/active", argv[2]);
	pin(0);
	map = ppid_map();
	if (!map)
		die_errno(PPID_DEVICE);

	printf("{\"open_write\": \"%s\", \"open_read_write\": \"%s\",\n", name(error_of_open(O_WRONLY)),
	       name(error_of_open(O_RDWR)));
	printf(" \"map_write\": \"%s\", ", name(error_of_map(PROT_READ | PROT_WRITE, MAP_SHARED)));
	printf("\"map_private_write\": \"%s\", ", name(error_of_map(PROT_READ | PROT_WRITE, MAP_PRIVATE)));
	error = mprotect((void *)map, 4096, PROT_READ | PROT_WRITE) ? errno : 0;
	printf("\"mprotect\": \"%s\",\n", name(error));

	/* Newer kernels have room only for CPUs that the firmware tells of: CPU 0 may be all that has a line. */
	possible = cpu < ppid_cpus();
	absent = access(online, F_OK);
	for (int i = 0; i < 1000 && !absent; i++) {
		seen += !map[cpu].ids;
		sleep_ns(1 * MS);
	}
	if (absent)
		printf(" \"idle\": null,\n");
	else
		printf(" \"idle\": {\"pid\": 0, \"tgid\": 0, \"seen\": %d, \"of\": 1000},\n", seen);

	error = absent ? 0 : error_of_put(online, "0");
	if (!possible) {
		printf(" \"offline\": null, \"offline_reason\": \"there can be no CPU %d\", \"online_again\": null,\n", cpu);
	} else if (absent) {
		/* It was never there: nobody has ever written its line. */
		print_ids("offline", map[cpu].ids);
		printf(" \"offline_reason\": null, \"online_again\": null,\n");
	} else if (error) {
		printf(" \"offline\": null, \"offline_reason\": \"%s: %s\", \"online_again\": null,\n", online, name(error));
	} else {
		print_ids("offline", ids_of(&map[cpu]));
		printf(" \"offline_reason\": null,\n");
		error = error_of_put(online, "1");
		print_ids("online_again", ids_of(&map[cpu]));
	}

	error = syscall(SYS_delete_module, argv[2], O_NONBLOCK) ? errno : 0;
	printf(" \"unload_while_mapped\": \"%s\",\n", name(error));
	own = (uint32_t)syscall(SYS_gettid) | (uint64_t)(uint32_t)getpid() << 32;
	printf(" \"own_before_off\": %s,\n", map[0].ids == own ? "true" : "false");
	error_of_put(active, "0");
	print_ids("after_off", ids_of(&map[0]));
	printf(" \"open_after_off\": \"%s\",\n", name(error_of_open(O_RDONLY)));
	error_of_put(active, "1");
	sleep_ns(100 * MS);
	printf(" \"own_after_on\": %s}\n", map[0].ids == own ? "true" : "false");
	return 0;
}
