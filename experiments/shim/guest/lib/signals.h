/* SPDX-License-Identifier: MIT */
/*
 * What is read beside the slot: counters and words of memory. A counter of instructions has to count a known loop first;
 * one that cannot is refused, with the reason.
 */
#ifndef SHIM_SIGNALS_H
#define SHIM_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

#include "events.h"
#include "perfpage.h"
#include "ppid.h"

enum { SIGNALS = 8 };

/*
 * Of the observed CPU: the oracle's page, always; the slot, as of its latest switch. A PMU read by the observer counts the
 * observer's own thread, so a known loop of another thread refuses it.
 */
enum source { SOURCE_ORACLE, SOURCE_PMU, SOURCE_MEMORY, SOURCE_SLOT };

extern const char *const source_names[];

struct signal_source {
	char name[64];
	enum source source;
	const volatile uint64_t *at;		/* oracle, memory, slot */
	const struct ppid_line *line;		/* slot */
	int counter;				/* slot: which */
	struct perf_event_mmap_page *page;	/* pmu */
	uint64_t expected, counted;		/* the known loop; 0: none, or on no counter */
	char reason[160];			/* why it is refused; empty: it is not */
};

static inline __attribute__((always_inline)) uint64_t signal_read(const struct signal_source *signal)
{
	return signal->source == SOURCE_PMU ? perf_page_read(signal->page).count : *signal->at;
}

/* In front of whatever else runs on the CPU, 0: no longer. Not for long, or the CPU's own threads starve. */
bool fifo(int priority);

/*
 * The least of some counts: interrupts in between only add. The loop runs on `cpu`, in a thread of its own, and the
 * caller reads: so what counts the caller instead has not counted it.
 */
void signal_check(struct signal_source *signal, int cpu);

/* A PMU event of the calling thread. */
void signal_pmu(struct signal_source *signal, const struct event *event);

/* An event that the module counts on the observed CPU, out of its line of the slot. */
void signal_slot(struct signal_source *signal, const struct event *event, const struct ppid_line *line);

/* Of an event that no known loop has a count of: the module's counter of instructions has to count one. */
void signal_trust_as(struct signal_source *signal, const struct event *proof, const struct ppid_line *line, int cpu);

/* Instructions of the observed CPU, out of the oracle's page. */
void signal_oracle(struct signal_source *signal, int cpu);

/* A 64-bit word that somebody else writes: NAME=FILE@OFFSET. False for wrong words. */
bool signal_memory(struct signal_source *signal, const char *words);

#endif
