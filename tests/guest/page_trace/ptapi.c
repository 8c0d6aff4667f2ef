// SPDX-License-Identifier: MIT
/*
 * ptapi: what /dev/page_trace answers to each wrong use. One line per question: its name, the errno got, the errno
 * wanted; exit 3 if one differs. Every process asked about is a child of this one; root only.
 */
#include "trace.h"

#include <asm/ldt.h>
#include <pthread.h>
#include <sys/personality.h>
#include <sys/syscall.h>

static unsigned int wrong;

static void answer(const char *name, int got, int wanted)
{
	printf("%s %d %d\n", name, got, wanted);
	wrong += got != wanted;
}

/* The errno of a call that gave `result`. */
static int error_of(long result)
{
	return result < 0 ? errno : 0;
}

static int start_new(pid_t pid)
{
	int fd = open_device(), error = start_trace(fd, pid, 0);

	close(fd);
	return error;
}

static int start_as(uint32_t window, uint32_t flags, uint32_t records)
{
	struct page_trace_start start = { .pid = getppid(), .window = window, .flags = flags, .records = records };
	int fd = open_device(), error = error_of(ioctl(fd, PAGE_TRACE_START, &start));

	close(fd);
	return error;
}

/* -- processes of several kinds; each says with a byte that it has become one ------------------- */

static void ready(int end)
{
	if (write(end, "", 1) != 1)
		_exit(1);
}

static int wait_forever(void *data)
{
	if (data)
		ready(*(int *)data);
	for (;;)
		pause();
	return 0;
}

static void become_plain(int end)
{
	wait_forever(&end);
}

static void become_zombie(int end)
{
	ready(end);
	_exit(0);
}

static void become_executable(int end)
{
	personality(READ_IMPLIES_EXEC);
	wait_forever(&end);
}

static char stack[65536] __attribute__((aligned(16)));

static void become_shared(int end)
{
	pid_t other = clone(wait_forever, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);

	if (other < 0)
		_exit(1);
	wait_forever(&end);
}

static void become_vforked(int end)
{
	if (!vfork())
		wait_forever(&end);
	_exit(0);
}

static void become_ldt(int end)
{
	struct user_desc entry = { .entry_number = 0, .limit = 10, .seg_32bit = 1, .limit_in_pages = 1 };

	if (syscall(SYS_modify_ldt, 1, &entry, sizeof(entry)))
		_exit(1);
	wait_forever(&end);
}

static void *thread_waits(void *data)
{
	nap_us(50000);
	return wait_forever(data) ? data : NULL;
}

static void become_leaderless(int end)
{
	pthread_t other;

	if (pthread_create(&other, NULL, thread_waits, &end))
		_exit(1);
	pthread_exit(NULL);
}

static pid_t make(void (*become)(int))
{
	pid_t child;
	int ends[2];
	char byte;

	fflush(stdout);
	if (pipe(ends))
		die_errno("pipe");
	child = fork();
	if (child < 0)
		die_errno("fork");
	if (!child) {
		setpgid(0, 0);
		become(ends[1]);
		_exit(1);
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		die("a process did not become what it should");
	close(ends[0]);
	nap_us(become == become_zombie ? 100000 : 0);
	return child;
}

static void end(pid_t child)
{
	kill(-child, SIGKILL);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void ask(const char *name, void (*become)(int), int wanted)
{
	pid_t child = make(become);

	answer(name, start_new(child), wanted);
	end(child);
}

static bool isolated(void)
{
	char line[4096] = "";
	FILE *file = fopen("/proc/cmdline", "r");

	if (file && fgets(line, sizeof(line), file))
		fclose(file);
	return strstr(line, "pti=on");
}

/* The other process of a shared mm, by its number, and whoever has no right. */
static void others(void)
{
	int fd = open_device(), status;
	pid_t child = make(become_plain), asker;

	fflush(stdout);
	asker = fork();
	if (!asker) {
		if (setgid(1000) || setuid(1000))
			_exit(0);
		_exit(start_trace(fd, child, 0));
	}
	waitpid(asker, &status, 0);
	answer("not-allowed", WEXITSTATUS(status), EPERM);
	close(fd);
	fflush(stdout);
	asker = vfork();
	if (!asker)
		_exit(start_new(getppid()));
	waitpid(asker, &status, 0);
	answer("vforked-asks-for-parent", WEXITSTATUS(status), EOPNOTSUPP);
	end(child);
}

/* -- one file, used in the wrong order -------------------------------------------------------------- */

static void order(void)
{
	struct pollfd poll_one = { .events = POLLIN };
	pid_t child = make(become_plain), other = make(become_plain);
	int fd = open_device(), second = open_device();
	struct page_trace_ring *ring;
	char byte = 0;

	poll_one.fd = fd;
	answer("mmap-before-start", error_of((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0)), EINVAL);
	answer("stop-before-start", error_of(ioctl(fd, PAGE_TRACE_STOP)), EINVAL);
	answer("poll-before-start", poll(&poll_one, 1, 0) == 1 && poll_one.revents & POLLERR ? 0 : 1, 0);
	answer("stats-before-start", get_stats(fd).faults != 0, 0);
	answer("read", error_of(read(fd, &byte, 1)), EINVAL);
	answer("write", error_of(write(fd, &byte, 1)), EINVAL);
	answer("unknown-ioctl", error_of(ioctl(fd, _IO('p', 0xef))), ENOTTY);
	answer("start-bad-pointer", error_of(ioctl(fd, PAGE_TRACE_START, 16)), EFAULT);
	answer("stats-bad-pointer", error_of(ioctl(fd, PAGE_TRACE_STATS, 16)), EFAULT);
	answer("start", start_trace(fd, child, 0), 0);
	answer("second-trace", start_trace(second, child, 0), EBUSY);
	answer("trace-beside", start_trace(second, other, 0), 0);
	answer("trace-beside-again", start_new(other), EBUSY);
	answer("live-beside", (int)get_stats(second).live, 1);
	close(second);
	second = open_device();
	answer("same-file-while-running", start_trace(fd, child, 0), EINVAL);
	answer("mmap-too-large", (long)mmap(NULL, RING_BYTES + PAGE, PROT_READ, MAP_SHARED, fd, 0) == -1, 1);
	answer("mmap-behind-the-end", (long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, RING_BYTES) == -1, 1);
	ring = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	answer("mmap", error_of((long)ring), 0);
	answer("ring-records", (int)ring->records, RECORDS);
	answer("ring-offset", (int)ring->offset, PAGE);
	answer("live", (int)get_stats(fd).live, 1);
	answer("stop", error_of(ioctl(fd, PAGE_TRACE_STOP)), 0);
	answer("ended", (int)ring->ended, 1);
	answer("live-after-stop", (int)get_stats(fd).live, 0);
	answer("stop-again", error_of(ioctl(fd, PAGE_TRACE_STOP)), 0);
	answer("same-file-again", start_trace(fd, child, 0), EINVAL);
	answer("mmap-after-stop", error_of((long)mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0)), 0);
	answer("another-file-now", start_trace(second, child, 0), 0);
	close(second);
	/* The mapping keeps the file, but not its trace. */
	close(fd);
	answer("mapping-outlives", ring->ended == 1 ? 0 : 1, 0);
	munmap(ring, RING_BYTES);
	answer("free-after-close", start_new(child), 0);
	end(child);
	end(other);
}

int main(int argc, char **argv)
{
	pid_t child;

	(void)argv;
	if (argc != 1)
		die_usage("usage: ptapi");
	answer("pid-0", start_new(0), ESRCH);
	answer("pid-negative", start_new(-1), ESRCH);
	answer("pid-of-nobody", start_new(4000000), ESRCH);
	answer("kernel-thread", start_new(2), EPERM);
	answer("own", start_new(getpid()), EDEADLK);
	answer("window-0", start_as(0, 0, 4096), EINVAL);
	answer("window-65", start_as(65, 0, 4096), EINVAL);
	answer("window-64", start_as(64, 0, 4096), 0);
	answer("flags", start_as(1, PAGE_TRACE_WROTE << 1, 4096), EINVAL);
	answer("records-512", start_as(1, 0, 512), EINVAL);
	answer("records-1000", start_as(1, 0, 1000), EINVAL);
	answer("records-0", start_as(1, 0, 0), EINVAL);
	answer("records-8388608", start_as(1, 0, 1 << 23), EINVAL);
	ask("plain", become_plain, 0);
	ask("zombie", become_zombie, ESRCH);
	ask("leader-has-ended", become_leaderless, ESRCH);
	ask("read-implies-exec", become_executable, EOPNOTSUPP);
	ask("shared", become_shared, EOPNOTSUPP);
	ask("vforked", become_vforked, EOPNOTSUPP);
	ask("ldt", become_ldt, isolated() ? EOPNOTSUPP : 0);
	child = make(become_zombie);
	waitpid(child, NULL, 0);
	answer("reaped", start_new(child), ESRCH);
	others();
	order();
	return wrong ? EXIT_WRONG : 0;
}
