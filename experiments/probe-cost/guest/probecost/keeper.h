/* SPDX-License-Identifier: MIT */
/*
 * keeper.h: another process that has the rings of perf's events mapped.
 *
 * What a task maps is in one tree with its heap, and its shape decides what the next mmap(), munmap() or brk() takes: one
 * ring more in the workload's own memory made a mmap() with its munmap() a seventh cheaper, and a brk() a quarter dearer.
 */
#ifndef KEEPER_H
#define KEEPER_H

#include "util.h"

/* Before what the workload has of its own is there, for a child has the same. */
void prepare_keeper(void);

/*
 * Map an event's ring; false with errno. Of one that nobody may write (PROT_READ) the newest samples overwrite the oldest;
 * one with PROT_WRITE loses what comes when it is full. Who reads it maps it too.
 */
bool keep_ring(int event, size_t size, int protection);

/* Up to where an event of its has been written. The descriptor tells which. */
uint64_t kept_until(int event);

/* Unmap it. */
void drop_ring(int event);

#endif
