// SPDX-License-Identifier: MIT
#include "work.h"

#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Bytes: of a heap that never grows; of what malloc() takes from it; and that one table of pages maps. */
enum { HEAP = 16 << 20, BELOW_MMAP = 100 << 10, PAGE_TABLE = 2 << 20 };

/*
 * Places for uprobes, by their first instruction: u_nop and u_push are emulated, u_step is executed out of line.
 * others holds places that never run. usdt_mark is a mark as sys/sdt.h makes them: a nop, a note that tells where
 * it is, and a semaphore that the kernel raises while somebody listens.
 */
__asm__(".text\n"
	".globl u_nop, u_push, u_step, u_others, usdt_mark, usdt_semaphore, u_deep, u_frames\n"
	"u_nop:	nop\n	mov %rdi, %rax\n	ret\n"
	"u_push:	push %rbp\n	pop %rbp\n	mov %rdi, %rax\n	ret\n"
	"u_step:	lea 1(%rdi), %rax\n	ret\n"
	"u_deep:	push %rbp\n	dec %rdi\n	jz 1f\n	call u_deep\n1:	pop %rbp\n	ret\n"
	/* Calls itself %rdi times with frame pointers, and turns %rsi times in the innermost. */
	"u_frames: push %rbp\n	mov %rsp, %rbp\n	dec %rdi\n	jle 3f\n	call u_frames\n	pop %rbp\n	ret\n"
	"3:	dec %rsi\n	jg 3b\n	pop %rbp\n	ret\n"
	"u_mark:	cmpw $0, usdt_semaphore(%rip)\n	je 2f\nusdt_mark:	nop\n2:	mov %rdi, %rax\n	ret\n"
	"u_others:	.fill 4096, 1, 0x90\n	ret\n"
	".section .probes, \"aw\"\nusdt_semaphore:	.short 0\n"
	".section .note.stapsdt, \"\", \"note\"\n"
	"	.balign 4\n	.4byte 8, 7f - 6f, 3\n	.asciz \"stapsdt\"\n	.balign 4\n"
	"6:	.8byte usdt_mark, 0, usdt_semaphore\n	.asciz \"krepro\"\n	.asciz \"mark\"\n	.asciz \"8@%rdi\"\n"
	"7:	.balign 4\n.text\n");

long spin_loops, depth = 1, sleepers = 1, path_length = 20;

enum { FRAME_TURNS = 100000, PATHS = 10 };

static int pipes[2], ping[2], pong[2], file = -1, null = -1;
static volatile long sink;
static char names[2][16] = { "krepro-one", "krepro-two" };

static void w_nothing(long i) { (void)i; }
static void w_getppid(long i) { (void)i; syscall(SYS_getppid); }
static void w_getuid(long i) { (void)i; syscall(SYS_getuid); }
static void w_rename(long i) { prctl(PR_SET_NAME, names[i & 1]); }
static void w_unop(long i) { sink = u_nop(i % 100); }
static void w_upush(long i) { sink = u_push(i % 100); }
static void w_ustep(long i) { sink = u_step(i % 100); }
static void w_umark(long i) { sink = u_mark(i % 100); }
static void w_udeep(long i) { (void)i; u_deep(depth); }
static void w_frames(long i) { (void)i; u_frames(depth, FRAME_TURNS); }
static void w_close(long i) { (void)i; close(-1); }
static void w_yield(long i) { (void)i; sched_yield(); }

static void w_itimer(long i)
{
	struct itimerval far = { .it_value.tv_sec = 100000 + i % 2 };

	setitimer(ITIMER_REAL, &far, NULL);
}

static void w_pipe(long i)
{
	char byte = (char)i;

	if (write(pipes[1], &byte, 1) != 1 || read(pipes[0], &byte, 1) != 1)
		die("the pipe is broken");
}

static void w_files(long i)
{
	char block[512];
	int fd = open("/run/probecost.data", O_RDONLY);

	if (fd < 0 || pread(fd, block, sizeof(block), (i & 7) * 512) != sizeof(block))
		die("/run/probecost.data: %s", strerror(errno));
	close(fd);
}

/* One of ten paths that are not there, which differ in the last of their characters. */
static void w_path(long i)
{
	static char path[256] = "/run/";

	memset(path + 5, 'p', (size_t)path_length - 5);
	path[path_length - 1] = (char)('0' + i % PATHS);
	path[path_length] = 0;
	if (open(path, O_RDONLY) >= 0)
		die("%s is there", path);
}

/* So many bytes to where nothing is kept. */
static void w_written(long i)
{
	static const char bytes[256];

	(void)i;
	if (write(null, bytes, (size_t)path_length) != path_length)
		die_errno("/dev/null");
}

/* What a shell does to find a program: names that are not there, then one that is, whose first bytes it reads. */
static void w_search(long i)
{
	static const char *const names[] = { "/usr/local/bin/probe", "/usr/bin/probe", "/run/probecost.data" };
	struct stat found;

	for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
		if (!stat(names[k], &found))
			access(names[k], R_OK);
	w_files(i);
}

/* Memory that is taken, written and given back, as an allocator does it. */
static void w_brk(long i)
{
	char *end = sbrk(8192);

	end[0] = end[4096] = (char)i;
	if (sbrk(-8192) == (void *)-1)
		die_errno("sbrk");
}

static void w_faults(long i)
{
	size_t pages = 16;
	char *at = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)i;
	for (size_t page = 0; page < pages; page++)
		at[page * 4096] = 1;
	munmap(at, pages * 4096);
}

static void on_signal(int number) { sink = number; }
static void w_signal(long i) { (void)i; kill(getpid(), SIGUSR1); }

static void w_fork(long i)
{
	pid_t child = fork();

	(void)i;
	if (!child)
		_exit(0);
	TEMP_FAILURE_RETRY(waitpid(child, NULL, 0));
}

/* A program of Debian's, which writes 16 bytes a hundred times. By its path: busybox takes itself for dd. */
static void w_dd(long i)
{
	pid_t child = fork();
	int status = 0;

	(void)i;
	if (!child) {
		execl("/bin/busybox", "dd", "if=/dev/zero", "of=/dev/null", "bs=16", "count=100", "status=none", NULL);
		_exit(127);
	}
	TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
	if (status)
		die("dd ended with status %d", status);
}

static int by_value(const void *a, const void *b)
{
	return (*(const uint32_t *)a > *(const uint32_t *)b) - (*(const uint32_t *)a < *(const uint32_t *)b);
}

/* Compute: sort 512 pseudo-random numbers, tell one user-space place about it, write one byte. */
static void w_sort(long i)
{
	static uint32_t values[512];
	uint32_t x = (uint32_t)i * 2654435761u | 1;

	for (int k = 0; k < 512; k++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		values[k] = x;
	}
	qsort(values, 512, sizeof(values[0]), by_value);
	sink = u_push((long)(values[0] % 100));
	w_pipe(i);
}

/* To a child and back: two context switches. */
static void w_pingpong(long i)
{
	char byte = (char)i;

	if (write(ping[1], &byte, 1) != 1 || read(pong[0], &byte, 1) != 1)
		die("the other process is gone");
}

static void *sleeper(void *rounds)
{
	for (long i = 0; i < (long)rounds; i++)
		sleep_ns(1000000);
	return NULL;
}

/* Several threads in one function at a time. */
static void w_sleepers(long i)
{
	pthread_t threads[64];

	(void)i;
	for (long t = 0; t < sleepers; t++)
		pthread_create(&threads[t], NULL, sleeper, (void *)4);
	for (long t = 0; t < sleepers; t++)
		pthread_join(threads[t], NULL);
}

/* A service: what comes in is read, looked up, computed on and answered. */
static void w_service(long i)
{
	w_pipe(i);
	if (i % 4 == 0)
		w_files(i);
	spin(200);
	sink = u_nop(i % 100);
	w_getppid(i);
}

/* Hot: a system call and a user-space place alternate with nothing between them. */
static void w_hot(long i)
{
	w_getppid(i);
	sink = u_nop(i % 100);
	w_rename(i);
}

static const struct work works[] = {
	{ "nothing", w_nothing },	{ "getppid", w_getppid },   { "getuid", w_getuid },   { "rename", w_rename },
	{ "itimer", w_itimer },	{ "pipe", w_pipe },	    { "files", w_files },     { "faults", w_faults },
	{ "signal", w_signal },	{ "fork", w_fork },	    { "sort", w_sort },	      { "pingpong", w_pingpong },
	{ "sleepers", w_sleepers }, { "service", w_service }, { "hot", w_hot },	      { "unop", w_unop },
	{ "upush", w_upush },	{ "ustep", w_ustep },	    { "umark", w_umark },     { "udeep", w_udeep },
	{ "frames", w_frames },	{ "close", w_close },	    { "yield", w_yield },     { "path", w_path },
	{ "search", w_search },	{ "brk", w_brk },	    { "dd", w_dd },
	{ "written", w_written },
};

const struct work *find_work(const char *name)
{
	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
		if (!strcmp(works[i].name, name))
			return &works[i];
	return NULL;
}

/*
 * The end of the heap is the work's of brk alone: memory of our own must not move it, for where it lies decides whether a
 * round takes a page table anew. malloc() takes much at once here, and gives nothing back.
 */
static void settle_heap(void)
{
	void *first, *second;
	uintptr_t end, whole;

	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	mallopt(M_TOP_PAD, HEAP);
	first = malloc(BELOW_MMAP);
	second = malloc(BELOW_MMAP); /* one of them is not in what was there */
	if (!first || !second)
		die_errno("malloc");
	free(second);
	free(first);
	end = (uintptr_t)sbrk(0);
	whole = (end + PAGE_TABLE - 1) / PAGE_TABLE * PAGE_TABLE;
	if (sbrk((intptr_t)(whole - end) + BELOW_MMAP) == (void *)-1)
		die_errno("sbrk");
	*(volatile char *)whole = 1; /* a table of pages that stays */
}

void prepare_works(void)
{
	static char block[8 * 512];
	struct sigaction action = { .sa_handler = on_signal };
	struct sched_param none = { 0 };

	/*
	 * Batch tasks do not preempt whom they wake up. If they may, whether they do hangs on the time that each has had,
	 * so on all that a trace adds: pingpong then takes another course when it is traced.
	 */
	if (sched_setscheduler(0, SCHED_BATCH, &none))
		die("sched_setscheduler: %s", strerror(errno));
	if (pipe2(pipes, O_CLOEXEC) || pipe2(ping, O_CLOEXEC) || pipe2(pong, O_CLOEXEC))
		die("pipe: %s", strerror(errno));
	settle_heap();
	sigaction(SIGUSR1, &action, NULL);
	file = open("/run/probecost.data", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0 || write(file, block, sizeof(block)) != sizeof(block))
		die("/run/probecost.data: %s", strerror(errno));
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (null < 0)
		die_errno("/dev/null");
	if (!fork()) { /* the other process of pingpong; its end comes with ours */
		char byte;

		close(ping[1]);
		while (read(ping[0], &byte, 1) == 1 && write(pong[1], &byte, 1) == 1)
			;
		_exit(0);
	}
}
