// SPDX-License-Identifier: MIT
/* Records of perf events, from their ring into a file. */
#include "krepro.h"

#include "krepro-perfring.h"

#include <sys/mman.h>
#include <sys/syscall.h>

int perf_open(struct perf_event_attr attr, pid_t pid, int cpu, size_t size)
{
	int event;

	attr.size = sizeof(attr);
	attr.disabled = 1;
	attr.enable_on_exec = 1;
	attr.watermark = 1;
	attr.wakeup_watermark = (uint32_t)size / 2;
	event = (int)TEMP_FAILURE_RETRY(syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC));
	if (event < 0)
		die_errno("perf_event_open");
	return event;
}

struct perf_ring perf_ring_of(int event, size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct perf_ring ring = { .event = event, .size = size };

	ring.page = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);
	if (ring.page == MAP_FAILED)
		die_errno("mapping the ring of an event");
	ring.data = (const char *)ring.page + page;
	return ring;
}

/* A header is 8 bytes and lies at a multiple of 8: it is never in two parts. What follows it may be. */
static const struct perf_event_header *record_at(const struct perf_ring *ring, uint64_t at)
{
	return (const void *)(ring->data + at % ring->size);
}

static void count(struct perf_ring *ring, uint64_t at)
{
	const uint64_t *lost = (const void *)(ring->data + (at + 16) % ring->size);

	if (record_at(ring, at)->type == PERF_RECORD_SAMPLE)
		ring->samples++;
	else if (record_at(ring, at)->type == PERF_RECORD_LOST)
		ring->lost += *lost;
}

void perf_ring_drain(struct perf_ring *ring, int output, const char *path)
{
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail, begin = tail % ring->size, bytes = head - tail;
	uint64_t first = bytes < ring->size - begin ? bytes : ring->size - begin;

	write_or_die(output, path, ring->data + begin, first);
	write_or_die(output, path, ring->data, bytes - first);
	ring->bytes += bytes;
	for (; tail != head; tail += record_at(ring, tail)->size)
		count(ring, tail);
	__atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
}
