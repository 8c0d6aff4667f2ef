/* SPDX-License-Identifier: MIT */
/* The trace's file: records as the kernel wrote them, or packed; never more bytes than were allowed. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include "krepro.h"
#include "page_trace.h"

struct file_header {
	char magic[8];		/* "KRPTRACE" */
	uint32_t version;	/* 1: records, 2: packed */
	uint32_t record_bytes;	/* 24; 0: packed */
	uint32_t window;
	uint32_t flags;		/* PAGE_TRACE_* */
	int32_t pid;
	uint32_t page_shift;
	uint64_t start_ns;	/* CLOCK_MONOTONIC, when the trace had just started */
	uint8_t zeros[24];
};

_Static_assert(sizeof(struct file_header) == 64, "the header is 64 bytes");
_Static_assert(sizeof(struct page_trace_record) == 24, "a record is 24 bytes");

struct output {
	int fd;
	bool packed;
	uint64_t most;		/* bytes of all; 0: any number */
	uint64_t written;	/* bytes behind the header */
	uint64_t left_out;	/* visits that there was no room for below `most` */
	int error;		/* errno of the write that failed */
};

/* Take n records; what cannot be written any more is left out, and counted. */
void output_put(struct output *output, const struct page_trace_record *record, size_t n);
/* Nothing follows: write what is held back, and how many visits were left out. */
void output_end(struct output *output);

#endif
