// SPDX-License-Identifier: GPL-2.0
/* What /dev/page_trace promises; see Documentation/admin-guide/mm/page_trace.rst. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/page_trace.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "kselftest_harness.h"

#define DEVICE	"/dev/page_trace"
#define PAGE	4096UL
#define RECORDS	16384
#define BYTES	(PAGE + RECORDS * sizeof(struct page_trace_record))
#define PAGES	8

/* In this order, and where the number is negative, written. No page twice in a row. */
static const signed char order[] = { 1, 2, -3, 1, -2, 4, 8, -7, 6, 5, 8, -1, 3 };

static int error_of(long result)
{
	return result < 0 ? errno : 0;
}

static int start_as(int fd, pid_t pid, __u32 window, __u32 flags, __u32 records)
{
	struct page_trace_start start = {
		.pid = pid, .window = window, .flags = flags, .records = records,
	};

	return error_of(ioctl(fd, PAGE_TRACE_START, &start));
}

static int start(int fd, pid_t pid)
{
	return start_as(fd, pid, 1, 0, RECORDS);
}

static struct page_trace_stats stats_of(int fd)
{
	struct page_trace_stats stats = { .faults = -1 };

	ioctl(fd, PAGE_TRACE_STATS, &stats);
	return stats;
}

FIXTURE(device) {
	int fd, second;
	volatile char *pages;	/* of the child: it touches them, one round for each byte */
	pid_t child;
	int go, done;
	struct page_trace_stats stats;
};

static void touch(volatile char *pages)
{
	unsigned int i;

	for (i = 0; i < sizeof(order); i++) {
		volatile char *page = pages + (abs(order[i]) - 1) * PAGE;

		if (order[i] < 0)
			*page = 1;
		else
			(void)*page;
	}
}

FIXTURE_SETUP(device)
{
	int go[2], done[2];
	char byte;

	if (access(DEVICE, F_OK))
		SKIP(return, "no " DEVICE);
	if (geteuid())
		SKIP(return, "not root");
	self->fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	self->second = open(DEVICE, O_RDWR | O_CLOEXEC);
	ASSERT_GE(self->fd, 0);
	ASSERT_GE(self->second, 0);
	self->pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(self->pages, MAP_FAILED);
	ASSERT_EQ(pipe(go), 0);
	ASSERT_EQ(pipe(done), 0);
	self->child = fork();
	ASSERT_GE(self->child, 0);
	if (!self->child) {
		close(self->fd);
		close(self->second);
		close(go[1]);
		memset((char *)self->pages, 0, PAGES * PAGE);
		while (write(done[1], "", 1) == 1 && read(go[0], &byte, 1) == 1)
			touch(self->pages);
		_exit(42);
	}
	close(go[0]);
	close(done[1]);
	self->go = go[1];
	self->done = done[0];
	ASSERT_EQ(read(self->done, &byte, 1), 1);
}

FIXTURE_TEARDOWN(device)
{
	if (self->child <= 0)
		return;
	close(self->fd);
	close(self->second);
	kill(self->child, SIGKILL);
	waitpid(self->child, NULL, 0);
}

/* Lets the child touch its pages once. */
static bool round_of(int go, int done)
{
	char byte;

	return write(go, "", 1) == 1 && read(done, &byte, 1) == 1;
}

TEST_F(device, only_root_opens_it)
{
	pid_t child = fork();
	int status;

	if (!child) {
		/* What is open may be used, of processes that one may trace. */
		if (setgid(65534) || setuid(65534))
			_exit(1);
		if (error_of(open(DEVICE, O_RDWR)) != EACCES)
			_exit(2);
		_exit(start(self->fd, self->child) == EPERM ? 0 : 3);
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(device, refuses_what_is_wrong)
{
	char byte;

	EXPECT_EQ(start(self->fd, 0), ESRCH);
	EXPECT_EQ(start(self->fd, -1), ESRCH);
	EXPECT_EQ(start(self->fd, 2), EPERM);
	EXPECT_EQ(start(self->fd, getpid()), EDEADLK);
	EXPECT_EQ(start_as(self->fd, self->child, 0, 0, RECORDS), EINVAL);
	EXPECT_EQ(start_as(self->fd, self->child, PAGE_TRACE_MAX_WINDOW + 1, 0, RECORDS), EINVAL);
	EXPECT_EQ(start_as(self->fd, self->child, 1, PAGE_TRACE_WROTE << 1, RECORDS), EINVAL);
	EXPECT_EQ(start_as(self->fd, self->child, 1, 0, 512), EINVAL);
	EXPECT_EQ(start_as(self->fd, self->child, 1, 0, 1000), EINVAL);
	EXPECT_EQ(start_as(self->fd, self->child, 1, 0, 1 << 23), EINVAL);
	EXPECT_EQ(error_of(ioctl(self->fd, PAGE_TRACE_START, 16)), EFAULT);
	EXPECT_EQ(error_of(ioctl(self->fd, PAGE_TRACE_STATS, 16)), EFAULT);
	EXPECT_EQ(error_of(ioctl(self->fd, PAGE_TRACE_STOP)), EINVAL);
	EXPECT_EQ(error_of(ioctl(self->fd, _IO('p', 0xef))), ENOTTY);
	EXPECT_EQ(error_of(read(self->fd, &byte, 1)), EINVAL);
	EXPECT_EQ(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, self->fd, 0), MAP_FAILED);
	EXPECT_EQ(stats_of(self->fd).faults, 0);
	/* After all that it still has its one trace. */
	EXPECT_EQ(start(self->fd, self->child), 0);
}

TEST_F(device, a_process_is_in_one_trace)
{
	ASSERT_EQ(start(self->fd, self->child), 0);
	EXPECT_EQ(start(self->second, self->child), EBUSY);
	EXPECT_EQ(stats_of(self->fd).live, 1);
	EXPECT_EQ(ioctl(self->fd, PAGE_TRACE_STOP), 0);
	EXPECT_EQ(stats_of(self->fd).live, 0);
	/* A file has one trace. */
	EXPECT_EQ(start(self->fd, self->child), EINVAL);
	EXPECT_EQ(ioctl(self->fd, PAGE_TRACE_STOP), 0);
	EXPECT_EQ(start(self->second, self->child), 0);
}

TEST_F(device, off_nothing_is_recorded)
{
	struct page_trace_stats after;
	struct page_trace_ring *ring;
	__u64 head;

	ASSERT_TRUE(round_of(self->go, self->done));
	ASSERT_EQ(start(self->fd, self->child), 0);
	ring = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
	ASSERT_NE(ring, MAP_FAILED);
	ASSERT_TRUE(round_of(self->go, self->done));
	ASSERT_EQ(ioctl(self->fd, PAGE_TRACE_STOP), 0);
	self->stats = stats_of(self->fd);
	head = ring->head;
	EXPECT_GE(self->stats.records, sizeof(order));
	EXPECT_EQ(ring->ended, 1);
	ASSERT_TRUE(round_of(self->go, self->done));
	after = stats_of(self->fd);
	EXPECT_EQ(memcmp(&self->stats, &after, sizeof(after)), 0);
	EXPECT_EQ(ring->head, head);
	munmap(ring, BYTES);
}

TEST_F(device, order_of_a_known_sequence)
{
	struct page_trace_record *records;
	struct page_trace_stats *s = &self->stats;
	struct page_trace_ring *ring;
	unsigned int seen = 0, round;
	__u64 i, last = 0, first = (unsigned long)self->pages / PAGE;

	ASSERT_EQ(start(self->fd, self->child), 0);
	ring = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
	ASSERT_NE(ring, MAP_FAILED);
	EXPECT_EQ(ring->records, RECORDS);
	for (round = 0; round < 3; round++)
		ASSERT_TRUE(round_of(self->go, self->done));
	ASSERT_EQ(ioctl(self->fd, PAGE_TRACE_STOP), 0);
	*s = stats_of(self->fd);
	EXPECT_EQ(s->faults, s->records + s->lost + s->code + s->slow + s->upgrades +
		  s->spurious);
	EXPECT_EQ(s->lost, 0);
	EXPECT_EQ(s->unfit, 0);
	EXPECT_EQ(s->tasks, 1);
	records = (void *)((char *)ring + ring->offset);
	for (i = 0; i < ring->head; i++) {
		__u64 page = (records[i].word[1] >> 12) - first;

		EXPECT_GE(records[i].word[0] >> 12, last);
		last = records[i].word[0] >> 12;
		if ((records[i].word[0] >> 8 & 15) != PAGE_TRACE_T_VISIT || page >= PAGES)
			continue;
		EXPECT_EQ(page + 1, abs(order[seen % sizeof(order)]));
		EXPECT_EQ(records[i].word[0] & PAGE_TRACE_F_WRITE,
			  order[seen % sizeof(order)] < 0);
		EXPECT_EQ(records[i].word[1] & 0xfff, self->child & 0xfff);
		seen++;
	}
	EXPECT_EQ(seen, 3 * sizeof(order));
	munmap(ring, BYTES);
}

/* The process goes on as if nothing had been, and may be traced anew. */
TEST_F(device, a_trace_ends_with_its_file)
{
	int status;

	ASSERT_EQ(start(self->fd, self->child), 0);
	ASSERT_EQ(write(self->go, "", 1), 1);
	close(self->fd);
	self->fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	ASSERT_EQ(start(self->second, self->child), 0);
	close(self->second);
	close(self->go);
	ASSERT_EQ(waitpid(self->child, &status, 0), self->child);
	self->child = 0;
	ASSERT_TRUE(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 42);
	close(self->fd);
}

TEST_F(device, it_ends_with_what_it_traces)
{
	struct pollfd end = { .fd = self->fd, .events = POLLIN };

	EXPECT_EQ(poll(&end, 1, 0), 1);
	EXPECT_EQ(end.revents, POLLERR);
	ASSERT_EQ(start(self->fd, self->child), 0);
	EXPECT_EQ(poll(&end, 1, 0), 0);
	ASSERT_EQ(kill(self->child, SIGKILL), 0);
	EXPECT_EQ(poll(&end, 1, 10000), 1);
	EXPECT_NE(end.revents & POLLHUP, 0);
	EXPECT_EQ(stats_of(self->fd).live, 0);
	EXPECT_EQ(stats_of(self->fd).tasks, 1);
}

TEST_HARNESS_MAIN
