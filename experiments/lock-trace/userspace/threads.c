// SPDX-License-Identifier: MIT
/*
 * The filters of the kernel's lock trace, their very source, between real threads on real CPUs.
 *
 *   threads check ARM TYPE LOCKS THREADS HOLD READS OPS   who waited for whom, from the locks' own words, against what
 *                                                         the filter kept
 *   threads cost ARM TYPE LOCKS THREADS OPS               cycles of a pair of acquire and release, net of the clock's
 *                                                         readings; threads have locks of their own
 *
 * ARM: off, all, paper, per-lock or contended. TYPE: spin, read, write, mutex. HOLD: turns of a loop. READS: per mille. The answer
 * is a line of JSON. A lock's word says which acquisition holds it, so that a failed trylock tells for whom it failed.
 */
#include "kernel.h"

#include <pthread.h>
#include <unistd.h>

#include "lock_trace_ring.c"
#include "lock_trace_table.c"
#include "lock_trace_waits.c"
#include "lock_trace_filter.c"
#include "lock_trace_paper.c"
#include "lock_trace.c"

char *cpu_bases[NR_CPUS];
__thread int this_cpu;
__thread char this_base[64];
__thread int preemptions;
__thread struct task_struct current_task;
int nr_cpu_ids;
const struct lock_trace_arm lock_trace_contention;

enum { MOST_LOCKS = 16384, RING_ORDER = 20 };

/* Who holds it: an acquisition's number, or how many readers below. 0: nobody. */
struct lock {
	u64 word;
} __attribute__((aligned(64)));

#define READER (1ull << 40)

static struct lock locks[MOST_LOCKS];

/* What came of one acquisition, as its thread saw it. */
struct truth {
	u64 before, acquired, after;	/* cycles: before the trylock, holding, after the last hook */
	u64 waits;			/* cycles: before the wait's hook; 0: it did not wait */
	u32 lock;
	u32 first, again;		/* who held it when the trylock failed; and after the hook */
	bool reader, kept, kept_wait;
};

static struct truth *truths[NR_CPUS];
static unsigned long ops;
static unsigned int n_locks, n_threads, hold_turns, reads;
static u8 lock_type;
static bool traced, checking;
static pthread_barrier_t ready, done;
static u64 cost[NR_CPUS];

/* -- the locks ------------------------------------------------------------------------------------------------------ */

static __always_inline u64 try_exclusive(struct lock *lock, u64 id)
{
	u64 seen = READ_ONCE(lock->word);

	return seen ? seen : cmpxchg(&lock->word, 0, id);
}

static __always_inline u64 try_shared(struct lock *lock)
{
	u64 seen = READ_ONCE(lock->word);

	while (!seen || seen >= READER) {
		u64 found = cmpxchg(&lock->word, seen, seen + READER);

		if (found == seen)
			return 0;
		seen = found;
	}
	return seen;
}

static __always_inline u64 try_lock(struct lock *lock, u64 id, bool reader)
{
	return reader ? try_shared(lock) : try_exclusive(lock, id);
}

static __always_inline void unlock(struct lock *lock, bool reader)
{
	if (reader)
		__atomic_sub_fetch(&lock->word, READER, __ATOMIC_RELEASE);
	else if (lock_type == LOCK_TRACE_MUTEX)
		/* As the kernel's: an atomic instruction. */
		__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE);
	else
		smp_store_release(&lock->word, 0);
}

static __always_inline u32 exclusive_holder(u64 seen)
{
	return seen >= READER ? 0 : seen;
}

/* Who has the lock may not be running: threads can be more than CPUs. */
static void relax(void)
{
	static __thread unsigned int turns;

	cpu_relax();
	if (!(++turns % 256))
		sched_yield();
}

/* As BUILD_TRACED_OPS of kernel/locking/spinlock.c. */
static noinline void traced_lock(struct lock *lock, u64 id, u8 type, unsigned long site,
				 bool reader, struct truth *truth)
{
	struct lock_trace_attempt attempt;
	u64 seen;

	if (!lock_trace_every() && likely(!try_lock(lock, id, reader)))
		return;
	lock_trace_attempt(&attempt, lock, type, site);
	seen = try_lock(lock, id, reader);
	if (unlikely(seen)) {
		if (truth) {
			truth->first = exclusive_holder(seen);
			truth->waits = get_cycles();
		}
		lock_trace_waits(&attempt, lock, type, site);
		seen = try_lock(lock, id, reader);
		if (truth)
			truth->again = exclusive_holder(seen);
		while (seen) {
			relax();
			seen = try_lock(lock, id, reader);
		}
	}
	lock_trace_acquired(&attempt, lock, type, site);
}

static noinline void traced_unlock(struct lock *lock, u8 type, unsigned long site, bool reader)
{
	struct lock_trace_end end;

	if (!lock_trace_every()) {
		LOCK_TRACE_LET_GO(lock, type, site, unlock(lock, reader));
		return;
	}
	lock_trace_unlock(&end, lock, type, site);
	unlock(lock, reader);
	lock_trace_unlocked(&end, lock, type);
}

static noinline void plain_lock(struct lock *lock, u64 id, bool reader)
{
	while (try_lock(lock, id, reader))
		relax();
}

static noinline void plain_unlock(struct lock *lock, bool reader)
{
	unlock(lock, reader);
}

/* -- threads ---------------------------------------------------------------------------------------------------------- */

static u32 next_random(u32 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void spend(unsigned int turns)
{
	while (turns--)
		__asm__ volatile("" ::: "memory");
}

static void check_thread(int cpu)
{
	struct truth *mine = truths[cpu];
	u32 state = 12345 + 6789 * cpu;

	for (unsigned long i = 0; i < ops; i++) {
		struct truth *truth = &mine[i];
		bool reader = lock_type == LOCK_TRACE_WRITE && next_random(&state) % 1000 < reads;
		u8 type = reader ? LOCK_TRACE_READ : lock_type;
		u32 id = (u32)cpu << 24 | (i + 1);

		truth->lock = next_random(&state) % n_locks;
		truth->reader = reader;
		/* Events have it, and so tell which acquisition is theirs. */
		current->pid = id;
		truth->before = get_cycles();
		traced_lock(&locks[truth->lock], id, type, 0x1000 + reader, reader, truth);
		/* All see by then that the wait is over. */
		smp_mb();
		_mm_lfence();
		truth->acquired = get_cycles();
		spend(hold_turns);
		/* Now and then the other finds it taken, whatever else the CPUs do. */
		if (hold_turns && !(i % 16))
			sched_yield();
		traced_unlock(&locks[truth->lock], type, 0x2000, reader);
		truth->after = get_cycles();
		/* By chance another is there, or not. */
		spend(next_random(&state) % (2 * hold_turns + 100));
	}
}

static __always_inline void pairs(unsigned int first, unsigned long n, bool reader)
{
	unsigned int at = 0;

	for (unsigned long i = 0; i < n; i++) {
		struct lock *lock = &locks[first + at];

		/* A stride that no prefetcher follows. */
		at = (at + 1201) % n_locks;
		if (traced) {
			traced_lock(lock, 1, lock_type, 0x1000, reader, NULL);
			traced_unlock(lock, lock_type, 0x2000, reader);
		} else {
			plain_lock(lock, 1, reader);
			plain_unlock(lock, reader);
		}
	}
}

/* The fastest of twenty pieces: others use the CPUs too. */
static void cost_thread(int cpu)
{
	bool reader = lock_trace_shared(lock_type);
	unsigned int first = cpu * (MOST_LOCKS / n_threads);
	u64 best = ~0ull;

	current->pid = cpu + 1;
	pairs(first, ops / 20, reader);
	for (int i = 0; i < 20; i++) {
		u64 begin = get_cycles(), took;

		pairs(first, ops / 20, reader);
		took = get_cycles() - begin;
		best = took < best ? took : best;
	}
	cost[cpu] = best;
}

static void *thread(void *argument)
{
	int cpu = (int)(intptr_t)argument;
	cpu_set_t set;

	this_cpu = cpu;
	cpu_bases[cpu] = this_base;
	CPU_ZERO(&set);
	CPU_SET(cpu % sysconf(_SC_NPROCESSORS_ONLN), &set);
	sched_setaffinity(0, sizeof(set), &set);
	pthread_barrier_wait(&ready);
	/* START: all threads are there, with their per-CPU variables. */
	pthread_barrier_wait(&ready);
	if (checking)
		check_thread(cpu);
	else
		cost_thread(cpu);
	pthread_barrier_wait(&done);
	/* STOP and the reading: the thread's variables stay. */
	pthread_barrier_wait(&done);
	return NULL;
}

/* -- what came of it --------------------------------------------------------------------------------------------------- */

struct result {
	unsigned long acquisitions, failed, kept, lost;
	unsigned long waiters_dropped;	/* the trylock failed, and it is not kept */
	unsigned long waits_invented;	/* a wait is kept of one whose trylock did not fail */
	unsigned long holders_dropped;	/* the trylock failed again after the hook, and who held it is not kept */
	unsigned long without_waiter;	/* kept, and nobody waited for that lock meanwhile */
	unsigned long gone;		/* who held it had let go before the hook, and is not kept */
};

static struct truth *truth_of(u32 id)
{
	return &truths[id >> 24][(id & 0xffffff) - 1];
}

/* Whether a thread waited for the lock while @held was held. Each thread's acquisitions are in order of time. */
static bool thread_waited(const struct truth *of, const struct truth *held)
{
	unsigned long low = 0, high = ops;

	while (low < high) {
		unsigned long middle = (low + high) / 2;

		if (of[middle].acquired < held->before)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < ops && of[low].before <= held->after; low++)
		if (of[low].lock == held->lock && of[low].waits && of[low].waits <= held->after)
			return true;
	return false;
}

static bool somebody_waited(const struct truth *held, unsigned int own)
{
	for (unsigned int cpu = 0; cpu < n_threads; cpu++)
		if (cpu != own && thread_waited(truths[cpu], held))
			return true;
	return false;
}

static void judge(struct result *result)
{
	for (unsigned int cpu = 0; cpu < n_threads; cpu++)
		for (unsigned long i = 0; i < ops; i++) {
			const struct truth *one = &truths[cpu][i];

			result->acquisitions++;
			result->failed += !!one->waits;
			result->kept += one->kept;
			result->waiters_dropped += one->waits && !(one->kept && one->kept_wait);
			result->waits_invented += !one->waits && one->kept_wait;
			result->holders_dropped += one->again && !truth_of(one->again)->kept;
			result->gone += one->first && one->first != one->again && !truth_of(one->first)->kept;
			result->without_waiter += one->kept && !one->waits && !somebody_waited(one, cpu);
		}
}

static u64 sum(const u64 *of_streams)
{
	u64 all = 0;

	for (int i = 0; i < LOCK_TRACE_STREAMS; i++)
		all += of_streams[i];
	return all;
}

static void read_events(struct result *result)
{
	static struct lock_trace_event events[1 << 12];
	struct lock_trace_status status = { };
	ssize_t size;

	while ((size = lock_trace_ring_read((char *)events, sizeof(events))) > 0)
		for (size_t i = 0; i < size / sizeof(events[0]); i++) {
			if (!events[i].pid)
				continue;
			truth_of(events[i].pid)->kept |= events[i].kind == LOCK_TRACE_ACQUIRED ||
							  events[i].kind == LOCK_TRACE_RELEASE;
			truth_of(events[i].pid)->kept_wait |= events[i].kind == LOCK_TRACE_WAITS;
		}
	judge(result);
	lock_trace_fill_status(&status);
	for (int i = 0; i < LOCK_TRACE_STREAMS; i++)
		result->lost += status.lost[i];
	printf("\"events\": %llu, ", (unsigned long long)status.events);
	printf("\"balance\": %lld, ", (long long)(sum(status.kept) + sum(status.dropped) + status.untracked - status.events));
	printf("\"untracked\": %llu, ", (unsigned long long)status.untracked);
}

static const struct { const char *name; int value; } arms[] = {
	{ "off", 0 }, { "all", LOCK_TRACE_ALL }, { "paper", LOCK_TRACE_PAPER }, { "per-lock", LOCK_TRACE_PER_LOCK },
	{ "contended", LOCK_TRACE_CONTENDED },
}, types[] = {
	{ "spin", LOCK_TRACE_SPIN }, { "read", LOCK_TRACE_READ }, { "write", LOCK_TRACE_WRITE },
	{ "mutex", LOCK_TRACE_MUTEX },
};

#define CHOICE(table, word) choice(word, table[0].name, sizeof(table[0]), ARRAY_SIZE(table), &table[0].value)

static int choice(const char *word, const char *const first, size_t step, size_t n, const int *value)
{
	(void)first;
	for (size_t i = 0; i < n; i++) {
		const char *const *name = (const char *const *)((const char *)value - offsetof(__typeof__(arms[0]), value) +
								i * step);

		if (!strcmp(*name, word))
			return *(const int *)((const char *)value + i * step);
	}
	fprintf(stderr, "threads: no %s\n", word);
	exit(2);
}

int main(int argc, char **argv)
{
	struct lock_trace_setup setup = { .ring_order = RING_ORDER, .lock_order = 16, .site_order = 15, .pool_order = 16 };
	struct result result = { };
	struct file file = { };
	pthread_t threads[NR_CPUS];

	checking = argc == 9 && !strcmp(argv[1], "check");
	if (!checking && (argc != 7 || strcmp(argv[1], "cost"))) {
		fprintf(stderr, "usage: threads check ARM TYPE LOCKS THREADS HOLD READS OPS\n"
				"       threads cost ARM TYPE LOCKS THREADS OPS\n");
		return 2;
	}
	setup.arm = CHOICE(arms, argv[2]);
	traced = setup.arm;
	lock_type = CHOICE(types, argv[3]);
	n_locks = atoi(argv[4]);
	n_threads = nr_cpu_ids = atoi(argv[5]);
	hold_turns = checking ? atoi(argv[6]) : 0;
	reads = checking ? atoi(argv[7]) : 0;
	ops = atol(argv[argc - 1]);
	if (n_threads < 1 || n_threads > NR_CPUS || n_locks < 1 || n_locks > MOST_LOCKS / (checking ? 1 : n_threads)) {
		fprintf(stderr, "threads: so many threads or locks there are not\n");
		return 2;
	}
	pthread_barrier_init(&ready, NULL, n_threads + 1);
	pthread_barrier_init(&done, NULL, n_threads + 1);
	for (unsigned int i = 0; i < n_threads; i++) {
		truths[i] = calloc(ops, sizeof(*truths[i]));
		pthread_create(&threads[i], NULL, thread, (void *)(intptr_t)i);
	}
	pthread_barrier_wait(&ready);
	/* The main thread is no CPU; it has its own place to count from. */
	if (traced && lock_trace_start(&file, &setup)) {
		fprintf(stderr, "threads: no memory\n");
		return 3;
	}
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&done);
	printf("{");
	if (traced) {
		this_cpu = 0;
		lock_trace_stop();
	}
	if (checking) {
		read_events(&result);
		printf("\"acquisitions\": %lu, \"failed\": %lu, \"kept\": %lu, \"lost\": %lu, \"waiters_dropped\": %lu, "
		       "\"waits_invented\": %lu, \"holders_dropped\": %lu, \"without_waiter\": %lu, \"gone\": %lu}\n",
		       result.acquisitions, result.failed, result.kept, result.lost, result.waiters_dropped,
		       result.waits_invented, result.holders_dropped, result.without_waiter, result.gone);
	} else {
		u64 most = 0;

		for (unsigned int i = 0; i < n_threads; i++)
			most = max(most, cost[i]);
		printf("\"cycles\": %.1f}\n", (double)most / (ops / 20));
	}
	pthread_barrier_wait(&done);
	for (unsigned int i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
