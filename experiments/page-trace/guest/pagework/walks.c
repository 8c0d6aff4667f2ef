// SPDX-License-Identifier: MIT
/* Walks over pages: stream, stride, random, chase, turns. Every access is of 8 bytes. */
#include "work.h"

static volatile uint64_t *walked;

static uint64_t words(const struct options *o)
{
	return o->pages * (PAGE / 8);
}

void walk_prepare(const struct options *o)
{
	walked = memory(o->pages * PAGE, o->touch);
}

/* The same for stream and stride: from the first word on, every `step` words, `rounds` times. */
static struct answer walk_by(const struct options *o, uint64_t step)
{
	struct answer answer = { 0, o->seed, 0 };
	const uint64_t n = words(o);

	for (uint64_t round = 0; round < o->rounds; round++) {
		uint64_t sum = 0;

		for (uint64_t i = 0; i < n; i += step) {
			if (o->store)
				walked[i] = i + round;
			else
				sum += walked[i] ^ i;
			answer.operations++;
		}
		answer.checksum = mix(answer.checksum, sum);
	}
	if (o->store)
		answer.checksum = mix(answer.checksum, walked[(n - 1) / step * step]);
	return answer;
}

struct answer stream_run(const struct options *o)
{
	return walk_by(o, 1);
}

struct answer stride_run(const struct options *o)
{
	return walk_by(o, o->bytes / 8);
}

struct answer random_run(const struct options *o)
{
	struct answer answer = { o->n, 0, 0 };
	uint64_t state = o->seed;

	for (uint64_t i = 0; i < o->n; i++) {
		uint64_t at = random_below(&state, (uint32_t)words(o));

		if (o->store)
			walked[at] = i;
		else
			answer.checksum += walked[at] ^ at;
	}
	if (o->store)
		answer.checksum = mix(walked[0], state);
	return answer;
}

/* One cycle through all nodes of `bytes` each, in random order (Sattolo 1986). */
void chase_prepare(const struct options *o)
{
	uint64_t n = o->pages * PAGE / o->bytes, step = o->bytes / 8, state = o->seed;

	walk_prepare(o);
	for (uint64_t i = 0; i < n; i++)
		walked[i * step] = i;
	for (uint64_t i = n - 1; i > 0; i--) {
		uint64_t j = random_below(&state, (uint32_t)i), kept = walked[i * step];

		walked[i * step] = walked[j * step];
		walked[j * step] = kept;
	}
}

struct answer chase_run(const struct options *o)
{
	struct answer answer = { o->n, 0, 0 };
	uint64_t step = o->bytes / 8, at = 0;

	for (uint64_t i = 0; i < o->n; i++) {
		at = walked[at * step];
		answer.checksum += at;
	}
	answer.checksum = mix(answer.checksum, at);
	return answer;
}

/*
 * Known visits, for what each kind of them costs a tracer and what an access takes: to pages 0 and 1 by two instructions
 * in turn, to 2 and 3 by one, to 4 and 5 by one with 100 accesses each, to 6 and 7 by one that touches both, with page 8
 * in between.
 */
enum { TURNS_PAGES = 9, TURNS_ACCESSES = 100 };

void turns_prepare(const struct options *o)
{
	(void)o;
	walked = memory(TURNS_PAGES * PAGE, true);
}

struct answer turns_run(const struct options *o)
{
	const volatile uint64_t *const page[] = { walked, walked + PAGE / 8, walked + 8 * (PAGE / 8) };
	const volatile uint64_t *across = (const volatile uint64_t *)((uintptr_t)walked + 7 * PAGE - 4);
	struct answer answer = { 4 * o->n, o->seed, (uintptr_t)walked / PAGE };
	uint64_t sum = 0;

	for (uint64_t i = 0; i < o->n; i++) {
		sum += *page[0];
		sum += *page[1];
	}
	for (uint64_t first = 2; first <= 4; first += 2)
		for (uint64_t i = 0; i < o->n; i++)
			for (uint64_t k = 0; k < (first == 2 ? 1 : TURNS_ACCESSES); k++)
				sum += walked[(first + i % 2) * (PAGE / 8)];
	for (uint64_t i = 0; i < o->n; i++) {
		sum += *across;
		sum += *page[2];
	}
	answer.checksum = mix(answer.checksum, sum);
	return answer;
}
