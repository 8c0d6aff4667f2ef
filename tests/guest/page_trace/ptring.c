// SPDX-License-Identifier: MIT
/*
 * ptring lost | abuse: a reader that is too slow, or that writes anything into the ring's first page.
 *
 * lost: a child visits pages 0 to 63 around and around while the ring is read in small pieces. Every gap in that
 * sequence has to be as long as the record before it says, and the counts have to add up.
 * abuse: the child has to come to its end, and the counts have to add up. Exit 3 if something is wrong.
 */
#include "trace.h"

enum { PAGES = 64, VISITS = 60000, LEAST = 1024, PIECE = 4 };

static volatile uint8_t *arena;
static unsigned int wrong;

static void expect(const char *what, uint64_t got, uint64_t wanted)
{
	if (got != wanted && wrong++ < 5)
		fprintf(stderr, "ptring: %s: %llu, not %llu\n", what, (unsigned long long)got,
			(unsigned long long)wanted);
}

/* Nothing but the loop's own loads touches data. */
static void walk(void)
{
	uint64_t left = VISITS, at = 0;

	__asm__ volatile("1: mov (%2,%1), %%rax\n\t"
			 "add $4096, %1\n\t"
			 "and $0x3ffff, %1\n\t"
			 "dec %0\n\t"
			 "jnz 1b"
			 : "+r"(left), "+r"(at)
			 : "r"(arena)
			 : "rax", "cc", "memory");
}

struct reader {
	const volatile struct page_trace_ring *ring;
	uint64_t tail, visits, lost, gaps;
	int64_t last;		/* page of the last visit to the arena, or -1 */
	uint64_t since;		/* visits lost since then */
	bool inside;
};

static void take(struct reader *reader, const uint64_t word[3])
{
	const uint64_t first = (uint64_t)arena / PAGE, page = word[1] >> 12;

	switch (word[0] >> 8 & 15) {
	case PAGE_TRACE_T_LOST:
		reader->lost += page;
		reader->since += page;
		reader->gaps++;
		break;
	case PAGE_TRACE_T_VISIT:
		reader->visits++;
		if (page < first || page >= first + PAGES) {
			reader->last = -1;
		} else {
			if (reader->last >= 0)
				expect("distance", (page - first - (uint64_t)reader->last) % PAGES,
				       (1 + reader->since) % PAGES);
			reader->last = (int64_t)(page - first);
		}
		reader->since = 0;
		break;
	}
}

static void drain(struct reader *reader, uint64_t most)
{
	const uint64_t head = __atomic_load_n(&reader->ring->head, __ATOMIC_ACQUIRE);
	const uint64_t(*records)[3] = (const void *)((const char *)reader->ring + reader->ring->offset);

	while (reader->tail != head && most--)
		take(reader, records[reader->tail++ & (LEAST - 1)]);
	__atomic_store_n(&((struct page_trace_ring *)reader->ring)->tail, reader->tail, __ATOMIC_RELEASE);
}

static void abuse(volatile struct page_trace_ring *ring, uint64_t *seed)
{
	for (unsigned int i = 0; i < 1000; i++) {
		ring->tail = i & 1 ? random_u64(seed) : ring->head + random_below(seed, 4096) - 2048;
		ring->head = random_u64(seed);
		ring->records = (uint32_t)random_u64(seed);
		ring->offset = (uint32_t)random_u64(seed);
		ring->ended = 0;
	}
}

int main(int argc, char **argv)
{
	struct page_trace_start start = { .window = 1, .records = LEAST };
	struct reader reader = { .last = -1 };
	bool abusing = argc == 2 && !strcmp(argv[1], "abuse");
	struct page_trace_stats stats;
	struct page_trace_ring *ring;
	uint64_t seed = 1;
	int fd, status, go[2];
	char byte = 0;

	if (argc != 2 || (!abusing && strcmp(argv[1], "lost")))
		die_usage("usage: ptring lost | abuse");
	arena = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (arena == MAP_FAILED || pipe(go))
		die_errno("mmap");
	start.pid = fork();
	if (start.pid < 0)
		die_errno("fork");
	if (!start.pid) {
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		walk();
		_exit(5);
	}
	fd = open_device();
	if (ioctl(fd, PAGE_TRACE_START, &start))
		die_errno("PAGE_TRACE_START");
	ring = mmap(NULL, PAGE + LEAST * 24, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED)
		die_errno("mmap");
	reader.ring = ring;
	if (write(go[1], "", 1) != 1)
		die_errno("write");
	while (!waitpid(start.pid, &status, WNOHANG)) {
		if (abusing) {
			abuse(ring, &seed);
		} else {
			nap_us(500);
			drain(&reader, PIECE);
		}
	}
	expect("status", (uint64_t)status, 5 << 8);
	stats = get_stats(fd);
	expect("balance", balanced(&stats), true);
	expect("live", stats.live, 0);
	if (!abusing) {
		drain(&reader, UINT64_MAX);
		expect("visits", reader.visits, stats.records);
		/* Losses after the last record are in the counts alone. */
		expect("lost", reader.lost <= stats.lost, true);
		expect("several gaps", reader.gaps > 3, true);
		if (stats.records + stats.lost < VISITS)
			expect("all", stats.records + stats.lost, VISITS);
	}
	ioctl(fd, PAGE_TRACE_STOP);
	printf("{\"visits\": %llu, \"lost\": %llu, \"gaps\": %llu, \"wrong\": %u}\n", (unsigned long long)stats.records,
	       (unsigned long long)stats.lost, (unsigned long long)reader.gaps, wrong);
	return wrong ? EXIT_WRONG : 0;
}
