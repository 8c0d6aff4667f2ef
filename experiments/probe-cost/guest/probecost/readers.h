/* SPDX-License-Identifier: MIT */
/* readers.h: the periodic refresh: processes that take events out of the buffers of instances and of programs. */
#ifndef READERS_H
#define READERS_H

#include "util.h"

/*
 * Over all readers: how many are ready, their wake-ups, calls of read that gave events, of these such as gave a whole
 * page, reads of what is no buffer, records; and what those took of the CPU that wait for events.
 */
struct taken {
	volatile long ready, stop, wakes, pages, whole, more, records, waiter_ns;
};

extern struct taken *taken;

void prepare_readers(void);

/*
 * Readers that wake up every so many microseconds: one for the buffers of the tracefs instances, if any is used, or one
 * for each of them; and one for each ring of a program, which waits for events if these wake it up. Of these all, or one
 * kind. `more`: how often each reads as much as a page has, of what is no buffer, beside each look into one.
 */
enum reader { ALL_READERS, OF_INSTANCES, OF_RINGS };
void start_readers(long microseconds, bool each, enum reader kind, long more);
void stop_readers(void);

#endif
