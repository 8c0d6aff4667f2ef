// SPDX-License-Identifier: MIT
#include "krepro.h"
#include "ring.h"

#include <sys/mman.h>

bool ring_open(struct ring *ring, size_t record, uint64_t size, uint64_t limit, int fd)
{
	memset(ring, 0, sizeof(*ring));
	ring->record = record;
	ring->size = size;
	ring->limit = limit;
	ring->fd = fd;
	ring->slots = mmap(NULL, record * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	return ring->slots != MAP_FAILED;
}

uint64_t ring_drain(struct ring *ring)
{
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
	uint64_t first = atomic_load_explicit(&ring->tail, memory_order_relaxed), tail = first;

	while (tail != head) {
		uint64_t at = tail & (ring->size - 1);
		uint64_t count = head - tail < ring->size - at ? head - tail : ring->size - at;
		size_t size = count * ring->record;

		if (!ring->error && write_all(ring->fd, ring->slots + at * ring->record, size) != size)
			ring->error = errno;
		tail += count;
		atomic_store_explicit(&ring->tail, tail, memory_order_release);
	}
	return tail - first;
}

/* Whether the end came before the nap was over. */
static bool drain_nap(struct drain *drain)
{
	struct timespec until;
	int failed;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += drain->nap_ms % 1000 * 1000000;
	until.tv_sec += drain->nap_ms / 1000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	do
		failed = sem_clockwait(&drain->end, CLOCK_MONOTONIC, &until);
	while (failed && errno == EINTR);
	return !failed;
}

static void *drain_main(void *argument)
{
	struct drain *drain = argument;
	bool last;

	do {
		last = drain_nap(drain);
		for (int i = 0; i < drain->n; i++)
			ring_drain(drain->rings[i]);
	} while (!last);
	return NULL;
}

int drain_begin(struct drain *drain)
{
	sem_init(&drain->end, 0, 0);
	return pthread_create(&drain->thread, NULL, drain_main, drain);
}

void drain_end(struct drain *drain)
{
	sem_post(&drain->end);
	pthread_join(drain->thread, NULL);
}
