/* SPDX-License-Identifier: MIT */
/*
 * The observer: samples of what another CPU does, each between two clocks. A sample is the line of /dev/ppid_map and some
 * signals. Two samples make a window, which is trusted or not (trust.h). See shim.c for the program.
 *
 * All of it is inline, here and in what it calls: a call or a register spilled between the clocks would be in every
 * sample, and would be measured.
 */
#ifndef SHIM_OBSERVER_H
#define SHIM_OBSERVER_H

#include <signal.h>

#include "shim.h"

static volatile sig_atomic_t shim_stop;

static inline uint64_t shim_random(struct shim *shim)
{
	shim->random ^= shim->random << 13;
	shim->random ^= shim->random >> 7;
	return shim->random ^= shim->random << 17;
}

/* Windows until the next delay. Two next to each other would make one window with a delay at both ends: none is seen. */
static inline uint64_t shim_gap(struct shim *shim)
{
	return 3 + shim_random(shim) % (2 * shim->delay_every);
}

static inline struct by_thread *shim_thread(struct shim *shim, uint64_t ids)
{
	static int last;

	if (last < shim->n_threads && shim->threads[last].ids == ids)
		return &shim->threads[last];
	for (int i = 0; i < shim->n_threads; i++) {
		if (shim->threads[i].ids == ids) {
			last = i;
			return &shim->threads[i];
		}
	}
	if (shim->n_threads == THREADS) /* the last one stands for all that found no place */
		return &shim->threads[THREADS - 1];
	last = shim->n_threads++;
	shim->threads[last].ids = last == THREADS - 1 ? (uint32_t)MANY | (uint64_t)(uint32_t)MANY << 32 : ids;
	return &shim->threads[last];
}

/* Words of memory and counters between two clocks. */
static inline __attribute__((always_inline)) void shim_sample(const struct shim *shim, struct sample *now, uint64_t delay)
{
	if (shim->line)
		now->slot = ppid_read(shim->line);
	for (int i = 0; i < shim->n_signals; i++)
		now->signals[i] = signal_read(&shim->signals[i]);
	if (delay) {
		uint64_t until = now->begin + delay;

		while (clock_begin() < until)
			;
	}
	now->end = clock_end();
	now->delay = delay;
}

/* Behind the sample: its CPU was in the middle of writing. */
static inline struct ppid_now shim_settled(const struct shim *shim, struct ppid_now now)
{
	for (int i = 0; now.torn && i < 64; i++)
		now = ppid_read(shim->line);
	return now;
}

static inline void shim_switch(struct shim *shim, const struct sample *now, uint32_t flags)
{
	static bool lost;
	const struct ppid_now slot = shim_settled(shim, now->slot);
	struct switch_record *record;

	if (!(flags & F_FIRST)) {
		shim->seen++;
		shim->missed += slot.begun - shim->last_begun - 1;
		shim->torn += slot.torn;
	}
	shim->last_begun = slot.begun;
	if (!shim->switches)
		return;
	record = ring_slot(shim->switches);
	if (record) {
		const uint64_t time = slot.tsc ? slot.tsc : now->begin;

		flags |= (slot.torn ? F_TORN : 0) | (lost ? F_LOST : 0);
		*record = (struct switch_record){ now->begin, slot.ids, slot.begun, time, flags, (uint32_t)shim->cpu };
		ring_put(shim->switches);
	}
	lost = !record;
}

static inline void shim_record(struct shim *shim, const struct sample *now, uint32_t flags)
{
	static bool lost;
	struct sample_record *record = ring_slot(shim->samples);

	if (record) {
		record->begin = now->begin;
		record->end = now->end;
		record->ids = now->slot.ids;
		record->begun = now->slot.begun;
		record->flags = flags | (now->delay ? F_DELAYED : 0) | (lost ? F_LOST : 0);
		record->number = (uint32_t)shim->windows;
		for (int i = 0; i < shim->n_signals; i++)
			record->signals[i] = now->signals[i];
		ring_put(shim->samples);
	}
	lost = !record;
}

/*
 * Whether a delay must be noticed: it is twice what the wider bound allows of the window. The host may have made the
 * window longer than it was meant to be.
 */
static inline bool shim_noticeable(const struct bounds *bounds, uint64_t delay, uint64_t window)
{
	const struct ratio low = bounds->low, high = bounds->high;
	unsigned __int128 d = delay, w = window;

	return d * low.down > 2 * w * (low.down > low.up ? low.down - low.up : 0) &&
	       d * high.down > 2 * w * (high.up > high.down ? high.up - high.down : 0);
}

static inline void shim_window(struct shim *shim, const struct sample *from, const struct sample *to)
{
	bool good = trusted(&shim->bounds, from->begin, from->end, to->begin, to->end);
	bool same = from->slot.begun == to->slot.begun && from->slot.ids == to->slot.ids;
	const uint64_t cycles = to->begin - from->begin;
	unsigned int bucket = periods_bucket(cycles);
	struct by_thread *thread;

	shim->windows++;
	shim->trusted += good;
	shim->zero += !cycles;
	shim->periods.of[bucket].windows++;
	shim->periods.of[bucket].trusted += good;
	if (from->delay || to->delay) {
		if (shim_noticeable(&shim->bounds, from->delay > to->delay ? from->delay : to->delay, cycles)) {
			shim->delayed_windows++;
			shim->delayed_trusted += good;
		} else {
			shim->delayed_long++;
		}
	}
	thread = shim_thread(shim, same ? to->slot.ids : (uint32_t)IN_A_SWITCH | (uint64_t)(uint32_t)IN_A_SWITCH << 32);
	thread->cycles += cycles;
	thread->windows++;
	if (good) {
		thread->trusted++;
		thread->trusted_cycles += cycles;
		for (int i = 0; i < shim->n_signals; i++)
			thread->signals[i] += to->signals[i] - from->signals[i];
	}
	if (shim->samples)
		shim_record(shim, to, (good ? F_TRUSTED : 0) | (cycles ? 0 : F_ZERO));
}

/*
 * Until a sample is due. One just before it is thrown away: whatever came in between, the next finds its code and its
 * lines where the one before left them, and takes as long.
 */
static inline void shim_await(const struct shim *shim, struct sample *to, uint64_t due)
{
	const uint64_t early = shim->period / 4 < WARM_CYCLES ? shim->period / 4 : WARM_CYCLES;

	while ((to->begin = clock_begin()) < due - early)
		;
	shim_sample(shim, to, 0);
	while (clock_begin() < due)
		;
}

/* Sample until stop_at, or a signal. */
static inline void shim_run(struct shim *shim)
{
	struct sample samples[2] = { { 0 }, { 0 } }, *from = &samples[0], *to = &samples[1];
	uint64_t due, delay_in = shim->delay_every ? shim_gap(shim) : 0;

	host_read(&shim->host);
	from->slot.ids = to->slot.ids = PPID_NONE;
	from->begin = clock_begin();
	shim_sample(shim, from, 0);
	shim->n_samples = 1;
	shim->first_begun = from->slot.begun;
	if (shim->line)
		shim_switch(shim, from, F_FIRST);
	if (shim->samples)
		shim_record(shim, from, F_FIRST);
	for (due = from->begin + shim->period; !shim_stop; due += shim->period) {
		uint64_t delay;
		bool end;

		if (shim->period)
			shim_await(shim, to, due);
		to->begin = clock_begin();
		if (to->begin >= shim->stop_at)
			break;
		/* Late by more than a period: the samples between are not made up for. */
		if (to->begin - due > shim->period)
			due = to->begin;
		end = to->begin - from->begin >= shim->min_window;
		if (end && delay_in && !--delay_in && shim->n_delays < shim->max_delays) {
			delay_in = shim_gap(shim);
			delay = shim->delay + shim_random(shim) % shim->delay;
			shim->delays[shim->n_delays++] = (struct delay_record){ shim->windows + 1, to->begin, delay };
			shim_sample(shim, to, delay);
		} else {
			shim_sample(shim, to, 0);
		}
		shim->n_samples++;
		if (shim->line && to->slot.begun != shim->last_begun)
			shim_switch(shim, to, 0);
		if (end) {
			struct sample *swap = from;

			shim_window(shim, from, to);
			from = to;
			to = swap;
		}
		if (from->begin >= shim->host.due)
			host_read(&shim->host);
	}
	host_read(&shim->host);
}

#endif
