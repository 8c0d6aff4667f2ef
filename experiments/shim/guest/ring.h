/*
 * Records from one thread to a file, by way of a ring and a thread that empties it. The one that puts records in never
 * waits: where the ring is full, the record is lost and counted.
 */
#ifndef SHIM_RING_H
#define SHIM_RING_H

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct ring {
	unsigned char *slots;
	size_t record;		/* bytes */
	uint64_t size;		/* records; a power of two */
	/* What each side writes has a cache line of its own. */
	_Alignas(64) _Atomic uint64_t head;
	uint64_t lost, skipped, limit, seen_tail;
	_Alignas(64) _Atomic uint64_t tail;
	int fd, error;		/* error: errno of a write that failed, after which all goes nowhere */
};

/* `limit`: so many records and no more, 0 without a limit. Memory is there before the first record comes. */
static inline bool ring_open(struct ring *ring, size_t record, uint64_t size, uint64_t limit, int fd)
{
	memset(ring, 0, sizeof(*ring));
	ring->record = record;
	ring->size = size;
	ring->limit = limit;
	ring->fd = fd;
	ring->slots = mmap(NULL, record * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	return ring->slots != MAP_FAILED;
}

/* Where the next record goes, or NULL; ring_put() hands it over. */
static inline void *ring_slot(struct ring *ring)
{
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

	if (ring->limit && head == ring->limit) {
		ring->skipped++;
		return NULL;
	}
	if (head - ring->seen_tail == ring->size) {
		ring->seen_tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
		if (head - ring->seen_tail == ring->size) {
			ring->lost++;
			return NULL;
		}
	}
	return ring->slots + (head & (ring->size - 1)) * ring->record;
}

static inline void ring_put(struct ring *ring)
{
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);

	atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

/* Write out what is there; returns how many records that was. */
static inline uint64_t ring_drain(struct ring *ring)
{
	uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
	uint64_t first = atomic_load_explicit(&ring->tail, memory_order_relaxed), tail = first;

	while (tail != head) {
		uint64_t at = tail & (ring->size - 1);
		uint64_t count = head - tail < ring->size - at ? head - tail : ring->size - at;
		const unsigned char *from = ring->slots + at * ring->record;
		size_t left = count * ring->record;

		while (left && !ring->error) {
			ssize_t n = write(ring->fd, from, left);

			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0) {
				ring->error = errno;
				break;
			}
			from += n;
			left -= (size_t)n;
		}
		tail += count;
		atomic_store_explicit(&ring->tail, tail, memory_order_release);
	}
	return tail - first;
}

static inline uint64_t ring_count(struct ring *ring)
{
	return atomic_load_explicit(&ring->head, memory_order_relaxed);
}

/* The thread that empties some rings, every `nap_ms` and when it ends. */
struct drain {
	struct ring *rings[4];
	int n;
	long nap_ms;
	sem_t end;
	pthread_t thread;
};

/* Whether the end came before the nap was over. */
static inline bool drain_nap(struct drain *drain)
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

static inline void *drain_main(void *argument)
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

/* errno, or 0. */
static inline int drain_begin(struct drain *drain)
{
	sem_init(&drain->end, 0, 0);
	return pthread_create(&drain->thread, NULL, drain_main, drain);
}

/* When it returns all that was put is written, or its ring has an error. */
static inline void drain_end(struct drain *drain)
{
	sem_post(&drain->end);
	pthread_join(drain->thread, NULL);
}

#endif
