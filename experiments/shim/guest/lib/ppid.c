// SPDX-License-Identifier: MIT
#include "krepro.h"
#include "ppid.h"

#include <linux/bpf.h>
#include <sys/mman.h>
#include <sys/syscall.h>

int ppid_cpus(void)
{
	char text[256];
	const char *last;

	/* "0-7": more than there are now, where CPUs can be plugged in. */
	if (get_text("/sys/devices/system/cpu/possible", text, sizeof(text)) <= 0)
		return (int)sysconf(_SC_NPROCESSORS_CONF);
	last = strrchr(text, ',');
	last = last ? last + 1 : text;
	return atoi(strchr(last, '-') ? strchr(last, '-') + 1 : last) + 1;
}

size_t ppid_map_size(void)
{
	return ppid_bytes(ppid_cpus(), (size_t)sysconf(_SC_PAGESIZE));
}

/* Not for reading alone: the kernel maps only what is shared, and takes no such file for that. The map is frozen instead. */
static int bpf_map(void)
{
	union bpf_attr attr = { .pathname = (uintptr_t)PPID_BPF };

	return (int)TEMP_FAILURE_RETRY(syscall(SYS_bpf, BPF_OBJ_GET, &attr, sizeof(attr)));
}

const struct ppid_line *ppid_map(void)
{
	int fd = open(PPID_DEVICE, O_RDONLY | O_CLOEXEC);
	const int error = errno;
	void *map;

	if (fd < 0 && (fd = bpf_map()) < 0) {
		errno = error;
		return NULL;
	}
	map = mmap(NULL, ppid_map_size(), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return map == MAP_FAILED ? NULL : map;
}

struct ppid_counts ppid_counts(const struct ppid_line *line)
{
	struct ppid_counts now = { .torn = true };

	for (int i = 0; i < 64 && now.torn; i++) {
		uint64_t done = line->done;

		PPID_BARRIER();
		now.ids = line->ids;
		now.state = line->state;
		for (int k = 0; k < PPID_EVENTS; k++) {
			now.total[k] = line->total[k];
			now.slice[k] = line->slice[k];
		}
		PPID_BARRIER();
		now.begun = line->begun;
		now.torn = now.begun != done;
	}
	return now;
}

const char *ppid_refusal(const struct ppid_counts *counts, int i)
{
	static char text[80];
	const uint64_t flags = counts->state >> 4 * i;
	const int error = (int)(counts->state >> (32 + 16 * i) & 0xffff);

	if (!(flags & PPID_ASKED))
		return "the module counts no such event";
	if (error) {
		snprintf(text, sizeof(text), "the event cannot be opened: %s", strerror(error));
		return text;
	}
	if (counts->torn)
		return "the line does not come to rest";
	if (!(flags & PPID_WHOLE))
		return "the event shares its counter with others, and has not counted all the time";
	return flags & PPID_LIVE ? NULL : "the event was on no counter at the last switch";
}

const char *ppid_source(void)
{
	static const char *const sources[] = { "callback", "tracepoint", "original" };

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		char path[80], value = 0;
		int fd;

		snprintf(path, sizeof(path), "/sys/module/ppid_%s/parameters/active", sources[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (read(fd, &value, 1) != 1)
			value = 0;
		close(fd);
		if (value == 'Y')
			return sources[i];
	}
	return access(PPID_BPF, F_OK) ? NULL : "bpf";
}

bool ppid_asked(int events[PPID_EVENTS])
{
	const char *source = ppid_source();
	char path[80], text[64];

	if (!source)
		return false;
	snprintf(path, sizeof(path), "/sys/module/ppid_%s/parameters/events", source);
	return get_text(path, text, sizeof(text)) > 0 && sscanf(text, "%d,%d", &events[0], &events[1]) == PPID_EVENTS;
}
