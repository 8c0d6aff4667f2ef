/* SPDX-License-Identifier: MIT */
/*
 * What comes out of a trace while it runs: events into a file, and how full the rings are over time. A tracer of locks
 * sees the locks that draining takes. So memory is there before the trace starts: events are read into the mapped pages
 * of the file, a window of it at a time.
 */
#ifndef DRAIN_H
#define DRAIN_H

#include "krepro.h"
#include "lock_trace.h"

#include <pthread.h>

enum { EVENT = sizeof(struct lock_trace_event) };

struct sample {
	uint64_t time, events, kept, dropped, written, lost, drained;
};

struct drain {
	int device, file;
	bool late;			/* nothing is read before the end */
	uint64_t interval_ns;		/* of samples, and of waits */
	char *window;
	uint64_t begin;			/* the window's place in the file */
	uint64_t size;			/* of all events so far, bytes */
	struct sample *samples;
	unsigned int count;
	uint64_t next_ns;		/* the next sample's moment */
	const char *failed;		/* what did, with errno in error; nothing is read then any more */
	int error;
	bool stop;			/* the trace has ended: read the rest */
	pthread_t thread;
};

/* Everything that needs memory, before the trace starts; the device is open and not blocking. */
void drain_prepare(struct drain *drain, const char *folder);

void drain_begin(struct drain *drain);

/* After the trace was stopped: until all is read. */
void drain_end(struct drain *drain, const char *folder);

#endif
