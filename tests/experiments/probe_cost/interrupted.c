// SPDX-License-Identifier: MIT
/* probecost's calls on a kernel that interrupts each of them twice before it answers: link with --wrap of each. */
#include "bpf.h"

#include <limits.h>
#include <stdarg.h>
#include <sys/ioctl.h>

enum { TIMES = 2, DESCRIPTOR = 7, COUNT = 42 };

static int left = TIMES, calls;

/* Whether this call is one that a signal interrupts. */
static bool interrupted(void)
{
	calls++;
	if (!left--) {
		left = TIMES;
		return false;
	}
	errno = EINTR;
	return true;
}

long __wrap_syscall(long number, ...)
{
	(void)number;
	return interrupted() ? -1 : DESCRIPTOR;
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	(void)fd;
	(void)request;
	return interrupted() ? -1 : 0;
}

ssize_t __wrap_read(int fd, void *buffer, size_t size)
{
	uint64_t count = COUNT;

	(void)fd;
	if (interrupted())
		return -1;
	memcpy(buffer, &count, size);
	return (ssize_t)size;
}

static void tell(const char *what, long long answer)
{
	printf("%s %lld after %d calls%s%s\n", what, answer, calls, *problem ? ": " : "", problem);
	calls = 0;
}

int main(void)
{
	struct program program = { .additions = 1 };
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr) };

	tell("perf_event_open", perf_open(&attr));
	tell("ioctl", perf_control(DESCRIPTOR, PERF_EVENT_IOC_ENABLE, NULL));
	tell("read", (long long)perf_count(DESCRIPTOR));
	tell("program", bpf_program(BPF_PROG_TYPE_KPROBE, 0, &program, NULL));
	tell("fprobe", fprobe_link(DESCRIPTOR, "vfs_read"));
	tell("raw_tracepoint", raw_tracepoint(DESCRIPTOR, "sched_switch"));
	left = INT_MAX; /* what the kernel refuses it interrupts for ever */
	tell("refused", perf_tracepoint("krepro/e0"));
	return 0;
}
