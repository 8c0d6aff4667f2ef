// SPDX-License-Identifier: MIT
/* Work on arrays: matrix product, sorting, hash join. */
#include "work.h"

/* -- matmul: C = A B of n x n doubles, in two orders of the loops ---------------------------------------- */

static double *matrix_a, *matrix_b, *matrix_c;

void matmul_prepare(const struct options *o)
{
	uint64_t cells = o->n * o->n, state = o->seed;

	if (strcmp(o->order, "ijk") && strcmp(o->order, "ikj"))
		die_usage("--order is ijk or ikj");
	matrix_a = memory(cells * sizeof(double), o->touch);
	matrix_b = memory(cells * sizeof(double), o->touch);
	matrix_c = memory(cells * sizeof(double), o->touch);
	for (uint64_t i = 0; i < cells; i++) {
		matrix_a[i] = random_below(&state, 100);
		matrix_b[i] = random_below(&state, 100);
	}
}

struct answer matmul_run(const struct options *o)
{
	const uint64_t n = o->n;
	double sum;

	if (!strcmp(o->order, "ijk")) {
		for (uint64_t i = 0; i < n; i++) {
			for (uint64_t j = 0; j < n; j++) {
				sum = 0;
				for (uint64_t k = 0; k < n; k++)
					sum += matrix_a[i * n + k] * matrix_b[k * n + j];
				matrix_c[i * n + j] = sum;
			}
		}
	} else {
		for (uint64_t i = 0; i < n; i++) {
			for (uint64_t k = 0; k < n; k++) {
				const double x = matrix_a[i * n + k];

				for (uint64_t j = 0; j < n; j++)
					matrix_c[i * n + j] += x * matrix_b[k * n + j];
			}
		}
	}
	return (struct answer){ n * n * n, 0, 0 };
}

void matmul_finish(const struct options *o, struct answer *answer)
{
	for (uint64_t i = 0; i < o->n * o->n; i++) /* integers below 2^53: the same in any order */
		answer->checksum = mix(answer->checksum, (uint64_t)matrix_c[i]);
}

/* -- sort: n ints, by a quicksort of our own or by libc's qsort (which allocates a buffer) ------------------ */

static int *sorted;
static uint64_t comparisons;

void sort_prepare(const struct options *o)
{
	uint64_t state = o->seed;

	if (strcmp(o->algorithm, "quick") && strcmp(o->algorithm, "qsort"))
		die_usage("--algorithm is quick or qsort");
	sorted = memory(o->n * sizeof(int), o->touch);
	for (uint64_t i = 0; i < o->n; i++)
		sorted[i] = (int)random_u64(&state);
}

static void swap(int *a, int *b)
{
	int kept = *a;

	*a = *b;
	*b = kept;
}

/* Hoare's partition around the middle element; the shorter part by recursion, so the stack stays small. */
static void quicksort(int *first, int *last)
{
	while (first < last) {
		const int pivot = first[(last - first) / 2];
		int *low = first - 1, *high = last + 1;

		for (;;) {
			do
				comparisons++;
			while (*++low < pivot);
			do
				comparisons++;
			while (*--high > pivot);
			if (low >= high)
				break;
			swap(low, high);
		}
		if (high - first < last - high) {
			quicksort(first, high);
			first = high + 1;
		} else {
			quicksort(high + 1, last);
			last = high;
		}
	}
}

static int compare(const void *a, const void *b)
{
	const int x = *(const int *)a, y = *(const int *)b;

	comparisons++;
	return (x > y) - (x < y);
}

struct answer sort_run(const struct options *o)
{
	if (!strcmp(o->algorithm, "quick"))
		quicksort(sorted, sorted + o->n - 1);
	else
		qsort(sorted, o->n, sizeof(int), compare);
	return (struct answer){ comparisons, 0, 0 };
}

void sort_finish(const struct options *o, struct answer *answer)
{
	for (uint64_t i = 0; i < o->n; i++) {
		if (i && sorted[i - 1] > sorted[i])
			die("not sorted at %llu", (unsigned long long)i);
		answer->checksum = mix(answer->checksum, (uint32_t)sorted[i]);
	}
}

/* -- hashjoin: build a table of n rows, probe it with 2 n rows of which about half match ---------------------- */

struct row {
	uint64_t key, value;
};

static struct row *build_rows, *probe_rows, *table;
static uint64_t table_mask;

void hashjoin_prepare(const struct options *o)
{
	uint64_t state = o->seed;

	for (table_mask = 1; table_mask < 2 * o->n; table_mask *= 2)
		;
	build_rows = memory(o->n * sizeof(struct row), o->touch);
	probe_rows = memory(2 * o->n * sizeof(struct row), o->touch);
	table = memory(table_mask * sizeof(struct row), o->touch);
	table_mask--;
	for (uint64_t i = 0; i < o->n; i++) /* keys 2, 4, 6...: unique, and never 0, which is an empty place */
		build_rows[i] = (struct row){ 2 * (i + 1), random_u64(&state) };
	for (uint64_t i = 0; i < 2 * o->n; i++)
		probe_rows[i] = (struct row){ 1 + random_below(&state, (uint32_t)(2 * o->n)), i };
}

static uint64_t place_of(uint64_t key)
{
	return key * 0x9e3779b97f4a7c15ull >> 20 & table_mask;
}

struct answer hashjoin_run(const struct options *o)
{
	struct answer answer = { 3 * o->n, 0, 0 };
	uint64_t matches = 0;

	for (uint64_t i = 0; i < o->n; i++) {
		uint64_t at = place_of(build_rows[i].key);

		while (table[at].key)
			at = (at + 1) & table_mask;
		table[at] = build_rows[i];
	}
	for (uint64_t i = 0; i < 2 * o->n; i++) {
		uint64_t at = place_of(probe_rows[i].key);

		while (table[at].key && table[at].key != probe_rows[i].key)
			at = (at + 1) & table_mask;
		if (table[at].key) {
			matches++;
			answer.checksum += table[at].value ^ probe_rows[i].value;
		}
	}
	answer.checksum = mix(answer.checksum, matches);
	return answer;
}
