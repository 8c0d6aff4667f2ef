/* SPDX-License-Identifier: MIT */
/* readers.h: the periodic refresh: processes that take events out of the buffers of instances and of programs. */
#ifndef READERS_H
#define READERS_H

#include "util.h"

/*
 * Over all readers: how many are ready, their wake-ups, calls of read that gave events, of these such as gave a whole
 * page, records; and what those took of the CPU that wait for events.
 */
struct taken {
	volatile long ready, stop, wakes, pages, whole, records, waiter_ns;
};

extern struct taken *taken;

void prepare_readers(void);

/*
 * Readers that wake up every so many microseconds: one for the buffers of the tracefs instances, if any is used, or one
 * for each of them; and one for each ring of a program, which waits for events if these wake it up. `empty`: how often
 * each looks again into a buffer that is empty.
 */
void start_readers(long microseconds, bool each, long empty);
void stop_readers(void);

#endif
