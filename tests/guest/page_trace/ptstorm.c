// SPDX-License-Identifier: MIT
/*
 * ptstorm KIND MS: a process that is hard to trace, for MS milliseconds; it looks at all that it wrote.
 *
 *   clones   threads that create threads, which touch pages and end
 *   crowd    the same beside many others, slowly
 *   forks    processes that fork, touch pages and end, some by a signal
 *   vforks   the same with vfork and exec
 *   execs    the process itself execs again and again
 *   leader   threads of which the first one ends early
 *   changes  two threads use pages whose protection and place two others change
 *   huge     huge pages are made, used, split and given back
 *   futex    eight threads hand a token around and count
 *   signals  timer signals during instructions that touch several pages; no frame may have the trap flag
 *   calm     one thread that reads and writes pages
 *
 * Exit 3 if a value was lost or a flag was wrong.
 */
#include "trace.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

enum { PAGES = 16, HUGE = 512, THREADS = 8, TRAP_FLAG = 0x100 };

static uint64_t end_ms;
static unsigned int wrong;
static uint64_t rounds;

static bool over(void)
{
	return now_ms() >= end_ms;
}

static void report(const char *what, uint64_t got, uint64_t wanted)
{
	if (__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED) < 5)
		fprintf(stderr, "ptstorm: %s: %llx, not %llx\n", what, (unsigned long long)got,
			(unsigned long long)wanted);
}

static void count(void)
{
	__atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
}

static volatile uint8_t *map(size_t pages)
{
	void *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die_errno("mmap");
	return memory;
}

/* Written, then read in another order. */
static void use(volatile uint8_t *memory, unsigned int pages, uint64_t value)
{
	for (unsigned int i = 0; i < pages; i++)
		*(volatile uint64_t *)(memory + i * PAGE + 8 * i) = value + i;
	for (unsigned int i = pages; i-- > 0;) {
		uint64_t got = *(volatile uint64_t *)(memory + i * PAGE + 8 * i);

		if (got != value + i)
			report("page", got, value + i);
	}
}

static pthread_t thread(void *(*run)(void *), void *data)
{
	pthread_attr_t attributes;
	pthread_t made;
	int error;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 65536);
	error = pthread_create(&made, &attributes, run, data);
	pthread_attr_destroy(&attributes);
	if (error)
		die_with(EXIT_TOOL, error, "pthread_create");
	return made;
}

/* -- tasks that come and go ------------------------------------------------------------ */

static void *short_life(void *data)
{
	use(data, 4, (uint64_t)data);
	return NULL;
}

static void *clone_others(void *data)
{
	volatile uint8_t *memory = map(8 * PAGES);

	(void)data;
	while (!over()) {
		pthread_t made[4];

		for (unsigned int i = 0; i < 4; i++)
			made[i] = thread(short_life, (void *)(memory + 4 * i * PAGE));
		for (unsigned int i = 0; i < 4; i++)
			pthread_join(made[i], NULL);
		count();
	}
	return NULL;
}

static void clones(void)
{
	pthread_t made[2];

	for (unsigned int i = 0; i < 2; i++)
		made[i] = thread(clone_others, NULL);
	for (unsigned int i = 0; i < 2; i++)
		pthread_join(made[i], NULL);
}

static void *sleep_long(void *data)
{
	while (!over())
		nap_us(20000);
	return data;
}

/* As before, but those that create are put off in the middle of it, and a start has many others to find. */
static void crowd(void)
{
	const struct sched_param lowest = { 0 };
	pthread_t made[2 + 64];
	cpu_set_t set;
	pid_t busy = fork();

	CPU_ZERO(&set);
	CPU_SET(sysconf(_SC_NPROCESSORS_ONLN) - 1, &set);
	if (!busy) {
		sched_setaffinity(0, sizeof(set), &set);
		while (!over())
			;
		_exit(0);
	}
	for (unsigned int i = 0; i < 2; i++) {
		made[i] = thread(clone_others, NULL);
		pthread_setaffinity_np(made[i], sizeof(set), &set);
		pthread_setschedparam(made[i], SCHED_IDLE, &lowest);
	}
	for (unsigned int i = 2; i < sizeof(made) / sizeof(made[0]); i++)
		made[i] = thread(sleep_long, NULL);
	for (unsigned int i = 0; i < sizeof(made) / sizeof(made[0]); i++)
		pthread_join(made[i], NULL);
	waitpid(busy, NULL, 0);
}

static void forks(void)
{
	volatile uint8_t *memory = map(PAGES);

	for (uint64_t i = 0; !over(); i++, count()) {
		int status, wanted = i % 3 ? (int)(i & 0x7f) << 8 : SIGKILL;
		pid_t child;

		use(memory, PAGES, i);
		child = fork();
		if (child < 0)
			die_errno("fork");
		if (!child) {
			use(memory, PAGES, i + 1000);
			if (wrong)
				_exit(0x80);
			if (i % 3 == 0)
				raise(SIGKILL);
			_exit((int)(i & 0x7f));
		}
		use(memory, PAGES, i + 5);
		if (waitpid(child, &status, 0) != child || status != wanted)
			report("status", (uint64_t)status, (uint64_t)wanted);
	}
}

static void vforks(char *self)
{
	char *const words[] = { self, "nothing", "0", NULL };
	volatile uint8_t *memory = map(PAGES);

	for (uint64_t i = 0; !over(); i++, count()) {
		int status;
		pid_t child = vfork();

		if (child < 0)
			die_errno("vfork");
		if (!child) {
			if (i & 1)
				execv("/proc/self/exe", words);
			_exit(0);
		}
		use(memory, PAGES, i);
		if (waitpid(child, &status, 0) != child || status)
			report("status", (uint64_t)status, 0);
	}
}

static void *to_the_end(void *data)
{
	volatile uint8_t *memory = map(PAGES);

	(void)data;
	while (!over()) {
		use(memory, PAGES, 1);
		count();
	}
	if (wrong)
		_exit(EXIT_WRONG);
	exit(0);
}

/* -- pages that change ------------------------------------------------------------------ */

static volatile uint8_t *area;

static void on_segv(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (number != SIGSEGV || info->si_code != SEGV_ACCERR)
		report("si_code", (uint64_t)info->si_code, SEGV_ACCERR);
	/* Tried again: the other thread gives the page back. */
	sched_yield();
}

/* Its own word of each page, which only it writes. */
static void *write_words(void *data)
{
	const unsigned int my = (unsigned int)(uintptr_t)data;
	uint64_t last[PAGES] = { 0 };

	for (uint64_t i = 1; !over(); i++, count()) {
		unsigned int page = (unsigned int)(i * 7 + my) % PAGES;
		volatile uint64_t *word = (volatile uint64_t *)(area + page * PAGE) + my;

		if (*word != last[page])
			report("word", *word, last[page]);
		*word = last[page] = i;
	}
	return NULL;
}

static void *change(void *data)
{
	uint64_t seed = (uint64_t)data;

	while (!over()) {
		volatile uint8_t *page = area + random_below(&seed, PAGES) * PAGE;

		switch (random_below(&seed, 4)) {
		case 0:
			mprotect((void *)page, PAGE, PROT_READ);
			mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE);
			break;
		case 1:
			mprotect((void *)page, PAGE, PROT_NONE);
			mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE);
			break;
		case 2:
			madvise((void *)page, PAGE, MADV_PAGEOUT);
			break;
		case 3:
			madvise((void *)area, PAGES * PAGE, MADV_COLD);
			msync((void *)area, PAGES * PAGE, MS_SYNC);
			break;
		}
	}
	return NULL;
}

static void changes(void)
{
	struct sigaction action = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO };
	int fd = memfd_create("ptstorm", MFD_CLOEXEC);
	pthread_t made[4];

	if (fd < 0 || ftruncate(fd, PAGES * PAGE))
		die_errno("memfd_create");
	area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (area == MAP_FAILED || sigaction(SIGSEGV, &action, NULL))
		die_errno("mmap");
	for (uintptr_t i = 0; i < 4; i++)
		made[i] = thread(i < 2 ? write_words : change, (void *)(i + 1));
	for (unsigned int i = 0; i < 4; i++)
		pthread_join(made[i], NULL);
}

static void *collapse(void *data)
{
	(void)data;
	while (!over()) {
		madvise((void *)area, HUGE * PAGE, MADV_COLLAPSE);
		nap_us(500);
	}
	return NULL;
}

/* One half is used, a page of the other one is given back, which splits what is huge. */
static void huge(void)
{
	volatile uint8_t *memory = map(2 * HUGE);
	uint64_t seed = 1;
	pthread_t made;

	area = (volatile uint8_t *)(((uintptr_t)memory + HUGE * PAGE - 1) & ~(uintptr_t)(HUGE * PAGE - 1));
	if (madvise((void *)area, HUGE * PAGE, MADV_HUGEPAGE))
		die_errno("madvise");
	made = thread(collapse, NULL);
	for (uint64_t i = 0; !over(); i++, count()) {
		unsigned int page = HUGE / 2 + (unsigned int)random_below(&seed, HUGE / 2);

		use(area, HUGE / 2, i);
		*(volatile uint64_t *)(area + page * PAGE) = i + 1;
		if (madvise((void *)(area + page * PAGE), PAGE, MADV_DONTNEED))
			die_errno("madvise");
		if (*(volatile uint64_t *)(area + page * PAGE))
			report("given back", 1, 0);
	}
	pthread_join(made, NULL);
}

/* -- threads that wait -------------------------------------------------------------------- */

static struct {
	uint32_t token __attribute__((aligned(4096)));
	uint64_t sum __attribute__((aligned(4096)));
} ring;

static void futex(int operation, uint32_t value)
{
	struct timespec soon = { 0, 50000000 };

	syscall(SYS_futex, &ring.token, operation | FUTEX_PRIVATE_FLAG, value, operation == FUTEX_WAIT ? &soon : NULL);
}

static void *hand_on(void *data)
{
	const uint32_t my = (uint32_t)(uintptr_t)data;

	for (;;) {
		uint32_t token = __atomic_load_n(&ring.token, __ATOMIC_ACQUIRE);

		if (token == UINT32_MAX)
			return NULL;
		if (token % THREADS != my) {
			futex(FUTEX_WAIT, token);
			continue;
		}
		ring.sum++;
		count();
		__atomic_store_n(&ring.token, over() ? UINT32_MAX : token + 1, __ATOMIC_RELEASE);
		futex(FUTEX_WAKE, INT32_MAX);
	}
}

static void futexes(void)
{
	pthread_t made[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		made[i] = thread(hand_on, (void *)i);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(made[i], NULL);
	if (ring.sum != rounds)
		report("sum", ring.sum, rounds);
}

/* -- signals ------------------------------------------------------------------------------- */

static volatile uint64_t signals_taken;

static void on_alarm(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)number;
	(void)info;
	signals_taken++;
	if (registers[REG_EFL] & TRAP_FLAG)
		report("trap flag in a frame at", (uint64_t)registers[REG_RIP], 0);
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	report("SIGTRAP", (uint64_t)info->si_code, 0);
}

static void signals(void)
{
	struct sigaction action = { .sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct sigaction trap = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	struct itimerval timer = { { 0, 300 }, { 0, 300 } };
	volatile uint8_t *memory = map(PAGES);

	if (sigaction(SIGALRM, &action, NULL) || sigaction(SIGTRAP, &trap, NULL))
		die_errno("sigaction");
	if (setitimer(ITIMER_REAL, &timer, NULL))
		die_errno("setitimer");
	for (uint64_t i = 0; !over(); i++, count()) {
		volatile uint8_t *page = memory + (i % (PAGES - 3)) * PAGE;
		volatile uint64_t *across = (volatile uint64_t *)(page + PAGE - 4);
		uint64_t flags, got;

		*across = i;
		if (*across != i)
			report("straddling", *across, i);
		/* A push of memory across pages onto a stack across pages. */
		__asm__ volatile("mov %%rsp, %%rbx\n\tlea 4(%2), %%rsp\n\tpushq (%1)\n\tpopq %0\n\tmov %%rbx, %%rsp"
				 : "=&r"(got)
				 : "r"(across), "r"(page + 3 * PAGE)
				 : "rbx", "memory");
		if (got != i)
			report("pushed", got, i);
		__asm__ volatile("mov %%rsp, %%rbx\n\tlea 4(%1), %%rsp\n\tpushfq\n\tpopq %0\n\tmov %%rbx, %%rsp"
				 : "=&r"(flags)
				 : "r"(page + 3 * PAGE)
				 : "rbx", "memory");
		if (flags & TRAP_FLAG)
			report("trap flag in pushed flags", flags, 0);
	}
	memset(&timer, 0, sizeof(timer));
	setitimer(ITIMER_REAL, &timer, NULL);
	if (!signals_taken)
		report("signals", 0, 1);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		die_usage("usage: ptstorm KIND MS");
	if (!strcmp(argv[1], "nothing"))
		return 0;
	end_ms = now_ms() + argument("MS", argv[2], 0, 1 << 30);
	if (!strcmp(argv[1], "clones")) {
		clones();
	} else if (!strcmp(argv[1], "crowd")) {
		crowd();
	} else if (!strcmp(argv[1], "forks")) {
		forks();
	} else if (!strcmp(argv[1], "vforks")) {
		vforks(argv[0]);
	} else if (!strcmp(argv[1], "execs")) {
		char left[16];

		snprintf(left, sizeof(left), "%d", atoi(argv[2]) - 1);
		argv[2] = left;
		use(map(PAGES), PAGES, 3);
		/* Here the number is how many are to come. */
		if (left[0] != '-' && !wrong)
			execv("/proc/self/exe", argv);
		rounds = 1;
	} else if (!strcmp(argv[1], "leader")) {
		thread(to_the_end, NULL);
		thread(to_the_end, NULL);
		nap_us(20000);
		pthread_exit(NULL);
	} else if (!strcmp(argv[1], "changes")) {
		changes();
	} else if (!strcmp(argv[1], "huge")) {
		huge();
	} else if (!strcmp(argv[1], "futex")) {
		futexes();
	} else if (!strcmp(argv[1], "signals")) {
		signals();
	} else if (!strcmp(argv[1], "calm")) {
		volatile uint8_t *memory = map(PAGES);

		do {
			use(memory, PAGES, ++rounds);
		} while (!over());
	} else {
		die_usage("%s is no kind", argv[1]);
	}
	printf("{\"rounds\": %s, \"wrong\": %u}\n", rounds ? "true" : "false", wrong);
	return wrong ? EXIT_WRONG : 0;
}
