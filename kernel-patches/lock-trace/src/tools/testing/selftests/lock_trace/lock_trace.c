// SPDX-License-Identifier: GPL-2.0
/* What /dev/lock_trace promises; see Documentation/locking/lock-trace.rst. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/lock_trace.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "kselftest_harness.h"

#define DEVICE	"/dev/lock_trace"
#define MOST	131072

static struct lock_trace_event events[MOST];

static int error_of(long result)
{
	return result < 0 ? errno : 0;
}

static int start(int fd, unsigned int arm)
{
	struct lock_trace_setup setup = { .arm = arm };

	return error_of(ioctl(fd, LOCK_TRACE_START, &setup));
}

/* Reads to the end of a trace that has been stopped; how many events. */
static size_t read_all(int fd)
{
	size_t n = 0;
	ssize_t got;

	while (n < MOST && (got = read(fd, events + n, (MOST - n) * sizeof(*events))) > 0)
		n += got / sizeof(*events);
	return n;
}

static void nap_ms(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

FIXTURE(device) {
	int fd, second;
	struct lock_trace_status status;
};

FIXTURE_SETUP(device)
{
	if (access(DEVICE, F_OK))
		SKIP(return, "no " DEVICE);
	if (geteuid())
		SKIP(return, "not root");
	self->fd = open(DEVICE, O_RDONLY);
	ASSERT_GE(self->fd, 0);
	/* It may be open as often as one likes. */
	self->second = open(DEVICE, O_RDONLY | O_NONBLOCK);
	ASSERT_GE(self->second, 0);
}

FIXTURE_TEARDOWN(device)
{
	close(self->fd);
	close(self->second);
}

TEST_F(device, only_root_opens_it)
{
	pid_t child = fork();
	int status;

	if (!child) {
		if (setgid(65534) || setuid(65534))
			_exit(1);
		_exit(error_of(open(DEVICE, O_RDONLY)));
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(WEXITSTATUS(status), EACCES);
}

TEST_F(device, refuses_what_is_wrong)
{
	struct lock_trace_setup setup = { .arm = LOCK_TRACE_ALL, .reserved = 1 };
	char small[sizeof(*events) - 1];

	EXPECT_EQ(start(self->fd, 0), EINVAL);
	EXPECT_EQ(start(self->fd, LOCK_TRACE_ARMS), EINVAL);
	EXPECT_EQ(error_of(ioctl(self->fd, LOCK_TRACE_START, &setup)), EINVAL);
	setup.reserved = 0;
	setup.ring_order = 25;
	EXPECT_EQ(error_of(ioctl(self->fd, LOCK_TRACE_START, &setup)), EINVAL);
	setup.ring_order = 0;
	setup.lock_order = 21;
	EXPECT_EQ(error_of(ioctl(self->fd, LOCK_TRACE_START, &setup)), EINVAL);
	setup.lock_order = 0;
	setup.site_order = 23;
	EXPECT_EQ(error_of(ioctl(self->fd, LOCK_TRACE_START, &setup)), EINVAL);
	setup.site_order = 0;
	setup.pool_order = 21;
	EXPECT_EQ(error_of(ioctl(self->fd, LOCK_TRACE_START, &setup)), EINVAL);
	EXPECT_EQ(error_of(ioctl(self->fd, LOCK_TRACE_START, 16)), EFAULT);
	EXPECT_EQ(error_of(ioctl(self->fd, LOCK_TRACE_STATUS, 16)), EFAULT);
	EXPECT_EQ(error_of(ioctl(self->fd, _IO('L', 0x2f))), ENOTTY);
	EXPECT_EQ(error_of(read(self->fd, small, sizeof(small))), EINVAL);
	EXPECT_EQ(error_of(ioctl(self->fd, LOCK_TRACE_STOP)), ENODATA);
	ASSERT_EQ(ioctl(self->fd, LOCK_TRACE_STATUS, &self->status), 0);
	EXPECT_EQ(self->status.running, 0);
}

TEST_F(device, one_trace_at_a_time)
{
	ASSERT_EQ(start(self->fd, LOCK_TRACE_CONTENDED), 0);
	EXPECT_EQ(start(self->fd, LOCK_TRACE_CONTENDED), EBUSY);
	EXPECT_EQ(start(self->second, LOCK_TRACE_CONTENDED), EBUSY);
	ASSERT_EQ(ioctl(self->second, LOCK_TRACE_STATUS, &self->status), 0);
	EXPECT_EQ(self->status.running, 1);
	EXPECT_EQ(self->status.arm, LOCK_TRACE_CONTENDED);
	/* Any file that is open may stop it. */
	EXPECT_EQ(ioctl(self->second, LOCK_TRACE_STOP), 0);
	EXPECT_EQ(error_of(ioctl(self->fd, LOCK_TRACE_STOP)), ENODATA);
	EXPECT_EQ(start(self->second, LOCK_TRACE_CONTENDED), 0);
	EXPECT_EQ(ioctl(self->fd, LOCK_TRACE_STOP), 0);
}

static void *reads_one(void *data)
{
	struct lock_trace_event event;

	return (void *)read(*(int *)data, &event, sizeof(event));
}

TEST_F(device, one_reader_at_a_time)
{
	struct lock_trace_event event;
	bool busy = false;
	pthread_t reader;
	int i;

	/* He reads until somebody waits for a lock, or the trace ends. */
	for (i = 0; i < 20 && !busy; i++) {
		ASSERT_EQ(start(self->fd, LOCK_TRACE_CONTENDED), 0);
		ASSERT_EQ(pthread_create(&reader, NULL, reads_one, &self->fd), 0);
		nap_ms(20);
		busy = read(self->second, &event, sizeof(event)) < 0 && errno == EBUSY;
		ASSERT_EQ(ioctl(self->second, LOCK_TRACE_STOP), 0);
		ASSERT_EQ(pthread_join(reader, NULL), 0);
	}
	EXPECT_TRUE(busy);
}

TEST_F(device, off_nothing_is_recorded)
{
	struct lock_trace_status before;

	ASSERT_EQ(start(self->fd, LOCK_TRACE_ALL), 0);
	ASSERT_EQ(ioctl(self->fd, LOCK_TRACE_STOP), 0);
	read_all(self->fd);
	ASSERT_EQ(ioctl(self->fd, LOCK_TRACE_STATUS, &before), 0);
	nap_ms(50);
	ASSERT_EQ(ioctl(self->fd, LOCK_TRACE_STATUS, &self->status), 0);
	EXPECT_EQ(memcmp(&before, &self->status, sizeof(before)), 0);
	EXPECT_EQ(read(self->fd, events, sizeof(*events)), 0);
}

/* It ends with its file, also where its owner is killed in the middle. */
TEST_F(device, a_trace_ends_with_its_file)
{
	pid_t child;
	int ends[2];
	char byte;

	ASSERT_EQ(pipe(ends), 0);
	child = fork();
	if (!child) {
		close(self->fd);
		close(self->second);
		self->fd = open(DEVICE, O_RDONLY);
		if (self->fd < 0 || start(self->fd, LOCK_TRACE_ALL) ||
		    write(ends[1], "", 1) != 1)
			_exit(1);
		for (;;)
			if (read(self->fd, events, sizeof(events)) < 0)
				_exit(1);
	}
	ASSERT_EQ(read(ends[0], &byte, 1), 1);
	ASSERT_EQ(ioctl(self->fd, LOCK_TRACE_STATUS, &self->status), 0);
	EXPECT_EQ(self->status.running, 1);
	kill(child, SIGKILL);
	ASSERT_EQ(waitpid(child, NULL, 0), child);
	ASSERT_EQ(ioctl(self->fd, LOCK_TRACE_STATUS, &self->status), 0);
	EXPECT_EQ(self->status.running, 0);
	EXPECT_EQ(start(self->second, LOCK_TRACE_ALL), 0);
	close(ends[0]);
	close(ends[1]);
}

/* Of all that the task did with the pipe's mutex: each byte takes it once. */
TEST_F(device, counts_of_a_known_sequence)
{
	enum { BYTES = 777 };
	struct lock_trace_status *s = &self->status;
	size_t n, i, j, acquired, released, found = 0;
	int ends[2];

	ASSERT_EQ(pipe(ends), 0);
	ASSERT_EQ(start(self->fd, LOCK_TRACE_ALL), 0);
	for (i = 0; i < BYTES; i++)
		ASSERT_EQ(write(ends[1], "", 1), 1);
	ASSERT_EQ(ioctl(self->fd, LOCK_TRACE_STOP), 0);
	n = read_all(self->fd);
	ASSERT_EQ(ioctl(self->fd, LOCK_TRACE_STATUS, s), 0);
	EXPECT_EQ(s->kept[LOCK_TRACE_STREAM_LOG], s->events);
	EXPECT_EQ(s->written[LOCK_TRACE_STREAM_LOG] + s->lost[LOCK_TRACE_STREAM_LOG],
		  s->kept[LOCK_TRACE_STREAM_LOG]);
	EXPECT_EQ(n, s->written[LOCK_TRACE_STREAM_LOG]);
	ASSERT_EQ(s->lost[LOCK_TRACE_STREAM_LOG], 0);

	for (i = 0; i < n && !found; i++) {
		if (events[i].pid != getpid() || events[i].type != LOCK_TRACE_MUTEX ||
		    events[i].kind != LOCK_TRACE_ACQUIRED)
			continue;
		acquired = 0;
		released = 0;
		for (j = i; j < n; j++) {
			if (events[j].lock != events[i].lock || events[j].pid != getpid())
				continue;
			acquired += events[j].kind == LOCK_TRACE_ACQUIRED;
			released += events[j].kind == LOCK_TRACE_RELEASE;
		}
		found = acquired == BYTES && released == BYTES;
	}
	EXPECT_TRUE(found);
	close(ends[0]);
	close(ends[1]);
}

/* -- one who waits, and the one whom he waits for ------------------------------- */

struct writer {
	int fd;
	const void *from;
	pid_t tid;
	ssize_t wrote;
};

static void *writes_one(void *data)
{
	struct writer *writer = data;

	__atomic_store_n(&writer->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	writer->wrote = write(writer->fd, writer->from, 1);
	return NULL;
}

static void begin(pthread_t *thread, struct writer *writer)
{
	pthread_create(thread, NULL, writes_one, writer);
	while (!__atomic_load_n(&writer->tid, __ATOMIC_ACQUIRE))
		nap_ms(1);
}

static size_t count(size_t n, pid_t pid, __u64 lock, int kind)
{
	size_t i, found = 0;

	for (i = 0; i < n; i++)
		found += events[i].pid == pid && events[i].lock == lock &&
			 events[i].kind == kind;
	return found;
}

/*
 * The first writer holds the pipe's mutex while the page that he copies from is
 * not there; the second waits for it until it is.
 */
static void waits_for_a_page(struct __test_metadata *_metadata,
			     FIXTURE_DATA(device) *self, unsigned int arm)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_zeropage zero = { };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC), ends[2];
	struct writer holder = { }, waiter = { .from = "" };
	long size = sysconf(_SC_PAGESIZE);
	pthread_t threads[2];
	struct pollfd missing = { .fd = fd, .events = POLLIN };
	size_t n, i, waits = 0;
	__u64 lock = 0;
	void *page;

	if (fd < 0)
		SKIP(return, "no userfaultfd");
	page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(page, MAP_FAILED);
	ASSERT_EQ(ioctl(fd, UFFDIO_API, &api), 0);
	range.range.start = (unsigned long)page;
	range.range.len = size;
	ASSERT_EQ(ioctl(fd, UFFDIO_REGISTER, &range), 0);
	ASSERT_EQ(pipe(ends), 0);
	holder.fd = ends[1];
	holder.from = page;
	waiter.fd = ends[1];

	ASSERT_EQ(start(self->fd, arm), 0);
	begin(&threads[0], &holder);
	ASSERT_EQ(poll(&missing, 1, 10000), 1);
	begin(&threads[1], &waiter);
	nap_ms(300);
	zero.range = range.range;
	ASSERT_EQ(ioctl(fd, UFFDIO_ZEROPAGE, &zero), 0);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	ASSERT_EQ(ioctl(self->fd, LOCK_TRACE_STOP), 0);
	EXPECT_EQ(holder.wrote, 1);
	EXPECT_EQ(waiter.wrote, 1);

	n = read_all(self->fd);
	for (i = 0; i < n; i++)
		if (events[i].pid == waiter.tid && events[i].kind == LOCK_TRACE_WAITS &&
		    events[i].type == LOCK_TRACE_MUTEX &&
		    count(n, holder.tid, events[i].lock, LOCK_TRACE_RELEASE)) {
			lock = events[i].lock;
			waits++;
		}
	ASSERT_EQ(waits, 1);
	EXPECT_EQ(count(n, waiter.tid, lock, LOCK_TRACE_ATTEMPT), 1);
	EXPECT_EQ(count(n, waiter.tid, lock, LOCK_TRACE_ACQUIRED), 1);
	EXPECT_EQ(count(n, holder.tid, lock, LOCK_TRACE_RELEASE), 1);
	/* Since when he held it, one arm knows. */
	EXPECT_EQ(count(n, holder.tid, lock, LOCK_TRACE_ACQUIRED),
		  arm == LOCK_TRACE_PER_LOCK);
	munmap(page, size);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

TEST_F(device, who_waited_and_for_whom)
{
	waits_for_a_page(_metadata, self, LOCK_TRACE_PER_LOCK);
}

TEST_F(device, contended_says_who_let_go)
{
	waits_for_a_page(_metadata, self, LOCK_TRACE_CONTENDED);
}

TEST_HARNESS_MAIN
