/* SPDX-License-Identifier: MIT */
/*
 * Records from one thread to a file, by way of a ring and a thread that empties it. The one that puts records in never
 * waits: where the ring is full, the record is lost and counted.
 */
#ifndef SHIM_RING_H
#define SHIM_RING_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
bool ring_open(struct ring *ring, size_t record, uint64_t size, uint64_t limit, int fd);

/* Where the next record goes, or NULL; ring_put() hands it over. Inline: the observer's loop does it. */
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
uint64_t ring_drain(struct ring *ring);

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

/* errno, or 0. */
int drain_begin(struct drain *drain);

/* When it returns all that was put is written, or its ring has an error. */
void drain_end(struct drain *drain);

#endif
