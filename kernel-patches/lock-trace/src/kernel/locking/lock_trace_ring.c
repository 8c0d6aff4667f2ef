// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lock trace's rings: one for each CPU, written by that CPU in whatever
 * context it is, read by one reader at a time.
 */
#include <linux/cpumask.h>
#include <linux/topology.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <asm/local.h>

#include "lock_trace.h"

/*
 * Events go from tail to head. A writer takes a place by moving head and fills
 * it; one that interrupts it takes the next. The place's position, written
 * last, says that the event is whole. Only the reader moves tail.
 */
struct lock_trace_ring {
	struct lock_trace_event *events;
	local_t head;
	unsigned long tail ____cacheline_aligned_in_smp;
};

static DEFINE_PER_CPU(struct lock_trace_ring, lock_trace_rings);
static unsigned long lock_trace_ring_size;

/* No hook runs. Rings stay: the next trace probably wants the same. */
int lock_trace_ring_start(unsigned int order)
{
	unsigned long size = 1UL << order;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct lock_trace_ring *ring = per_cpu_ptr(&lock_trace_rings, cpu);

		if (size != lock_trace_ring_size) {
			vfree(ring->events);
			ring->events = NULL;
		}
	}
	lock_trace_ring_size = size;
	for_each_possible_cpu(cpu) {
		struct lock_trace_ring *ring = per_cpu_ptr(&lock_trace_rings, cpu);

		if (!ring->events)
			ring->events = vmalloc_node(size * sizeof(*ring->events),
						    cpu_to_node(cpu));
		if (!ring->events)
			return -ENOMEM;
		/* Positions of another trace mean nothing. */
		memset(ring->events, 0, size * sizeof(*ring->events));
		local_set(&ring->head, 0);
		ring->tail = 0;
	}
	return 0;
}

void lock_trace_keep(u8 stream, const struct lock_trace_call *call, u16 flags)
{
	struct lock_trace_ring *ring = this_cpu_ptr(&lock_trace_rings);
	struct lock_trace_event *event;
	unsigned long head;

	lock_trace_count(kept[stream], 1);
	do {
		head = local_read(&ring->head);
		/* The reader has copied what was before tail. */
		if (head - smp_load_acquire(&ring->tail) >= lock_trace_ring_size) {
			lock_trace_count(lost[stream], 1);
			if (!this_cpu_read(lock_trace_counts.first_loss))
				this_cpu_write(lock_trace_counts.first_loss,
					       call->time);
			return;
		}
	} while (local_cmpxchg(&ring->head, head, head + 1) != head);
	lock_trace_count(written[stream], 1);

	event = &ring->events[head & (lock_trace_ring_size - 1)];
	event->time = call->time;
	event->lock = call->lock;
	event->site = call->site;
	event->order = call->order;
	event->sequence = call->sequence;
	event->entry = call->index;
	event->pid = call->pid;
	event->depth = call->depth;
	event->cpu = call->cpu;
	event->kind = call->kind;
	event->type = call->type;
	event->stream = stream;
	event->context = call->context;
	event->flags = call->flags | flags;
	/* Pairs with the acquire in lock_trace_ring_ready(). */
	smp_store_release(&event->position, head + 1);
}

/* How many whole events lie at tail, without turning round. */
static unsigned long lock_trace_ring_ready(struct lock_trace_ring *ring,
					   unsigned long most)
{
	unsigned long at = ring->tail & (lock_trace_ring_size - 1);
	unsigned long n = 0;

	most = min(most, lock_trace_ring_size - at);
	while (n < most &&
	       /* Pairs with the release in lock_trace_keep(). */
	       smp_load_acquire(&ring->events[at + n].position) == ring->tail + n + 1)
		n++;
	return n;
}

/* One reader at a time. Bytes, 0 when there is nothing, or -EFAULT. */
ssize_t lock_trace_ring_read(char __user *buf, size_t size)
{
	unsigned long room = size / sizeof(struct lock_trace_event), done = 0;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct lock_trace_ring *ring = per_cpu_ptr(&lock_trace_rings, cpu);
		unsigned long n;

		if (!ring->events)
			continue;
		while ((n = lock_trace_ring_ready(ring, room - done))) {
			unsigned long at = ring->tail & (lock_trace_ring_size - 1);

			if (copy_to_user(buf + done * sizeof(struct lock_trace_event),
					 ring->events + at,
					 n * sizeof(struct lock_trace_event)))
				return -EFAULT;
			done += n;
			/* The copy is made before the places are free. */
			smp_store_release(&ring->tail, ring->tail + n);
		}
	}
	return done * sizeof(struct lock_trace_event);
}

/* Is a quarter of any CPU's ring in use? */
bool lock_trace_ring_filling(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct lock_trace_ring *ring = per_cpu_ptr(&lock_trace_rings, cpu);

		if (ring->events &&
		    local_read(&ring->head) - ring->tail >= lock_trace_ring_size / 4)
			return true;
	}
	return false;
}
