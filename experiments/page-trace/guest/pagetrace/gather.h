/* SPDX-License-Identifier: MIT */
/*
 * Gathers and scatters: instructions that access memory element by element, and remember which are done. When one faults,
 * it goes on where it was. So which of its pages it comes back to is not seen, nor are those that it is done with when it
 * is begun anew: where one needs several pages, a trace is not exact.
 */
#ifndef GATHER_H
#define GATHER_H

#include "page_trace.h"

#include <stddef.h>
#include <stdint.h>

/* Look at n records, while the memory of the tasks that made them is there; how many visits are of such instructions. */
uint64_t gather_visits(const struct page_trace_record *record, size_t n);

#endif
