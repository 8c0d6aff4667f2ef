// SPDX-License-Identifier: MIT
#include "bpf.h"

#include <sys/ioctl.h>
#include <sys/syscall.h>

enum { TRIES = 64 };

static int bpf(int command, union bpf_attr *attr)
{
	return (int)TEMP_FAILURE_RETRY(syscall(SYS_bpf, command, attr, sizeof(*attr)));
}

int perf_open(struct perf_event_attr *attr)
{
	int fd, tries = 0;

	/*
	 * A signal may be pending, or come. But not for ever: the kernel answers EINTR also where it refuses, to a user
	 * probe's event that is traced already (probe_event_enable in kernel/trace/trace_uprobe.c).
	 */
	do
		fd = (int)syscall(SYS_perf_event_open, attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	while (fd < 0 && errno == EINTR && ++tries < TRIES);
	return fd;
}

bool perf_control(int fd, unsigned long request, const void *argument)
{
	return !TEMP_FAILURE_RETRY(ioctl(fd, request, argument));
}

static int tracepoint(const char *event, struct perf_event_attr attr)
{
	char path[160], text[32];
	int fd;

	snprintf(path, sizeof(path), "events/%s/id", event);
	attr.type = PERF_TYPE_TRACEPOINT;
	attr.size = sizeof(attr);
	attr.config = strtoull(get(path, text, sizeof(text)), NULL, 10);
	attr.disabled = 1;
	fd = perf_open(&attr);
	if (fd < 0)
		fail("perf event %s: %s", event, errno != EINTR ? strerror(errno) :
		     "refused, for a user probe is traced or has programs, not both");
	return fd;
}

int perf_tracepoint(const char *event)
{
	return tracepoint(event, (struct perf_event_attr){ .sample_period = 0 });
}

int perf_sampled(const char *event)
{
	return tracepoint(event, (struct perf_event_attr){ .sample_period = 1, .wakeup_events = 1,
							   .sample_type = PERF_SAMPLE_RAW });
}

uint64_t perf_count(int fd)
{
	uint64_t count = 0;

	return TEMP_FAILURE_RETRY(read(fd, &count, sizeof(count))) == sizeof(count) ? count : 0;
}

int fprobe_link(int program, const char *symbol)
{
	const char *symbols[] = { symbol };
	union bpf_attr attr;
	int link;

	memset(&attr, 0, sizeof(attr));
	attr.link_create.prog_fd = (uint32_t)program;
	attr.link_create.attach_type = BPF_TRACE_KPROBE_MULTI;
	attr.link_create.kprobe_multi.syms = (uintptr_t)symbols;
	attr.link_create.kprobe_multi.cnt = 1;
	link = bpf(BPF_LINK_CREATE, &attr);
	if (link < 0)
		fail("fprobe on %s: %s", symbol, strerror(errno));
	return link;
}

int raw_tracepoint(int program, const char *name)
{
	union bpf_attr attr;
	int link;

	memset(&attr, 0, sizeof(attr));
	attr.raw_tracepoint.name = (uintptr_t)name;
	attr.raw_tracepoint.prog_fd = (uint32_t)program;
	link = bpf(BPF_RAW_TRACEPOINT_OPEN, &attr);
	if (link < 0)
		fail("raw tracepoint %s: %s", name, strerror(errno));
	return link;
}
