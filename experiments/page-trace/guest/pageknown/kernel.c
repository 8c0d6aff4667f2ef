// SPDX-License-Identifier: MIT
/* Known sequences in which the kernel takes part: system calls, signals, changes of the address space. */
#include "known.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>

static void expect_pages(unsigned int first, unsigned int last, int write)
{
	for (unsigned int page = first; page <= last; page++)
		expect(page, write);
}

static void done(ssize_t n, ssize_t wanted, const char *what)
{
	if (n != wanted)
		die_errno("%s gave %zd, not %zd", what, n, wanted);
}

static void pipe_or_die(int ends[2])
{
	if (pipe(ends))
		die_errno("pipe");
}

static int file_or_die(void)
{
	int fd = memfd_create("pageknown", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, 4 * PAGE))
		die_errno("memfd_create");
	return fd;
}

void write_pipe(void)
{
	int ends[2];

	pipe_or_die(ends);
	load(3, 0);
	done(write(ends[1], (void *)at(0, 0), 3 * PAGE), 3 * PAGE, "write");
	expect_pages(0, 2, 0);
	load(3, 0);
}

void read_pipe(void)
{
	static char data[3 * PAGE];
	int ends[2];

	memset(data, 'x', sizeof(data));
	pipe_or_die(ends);
	done(write(ends[1], data, sizeof(data)), sizeof(data), "write");
	load(3, 0);
	done(read(ends[0], (void *)at(0, 0), 3 * PAGE), 3 * PAGE, "read");
	expect_pages(0, 2, 1);
	load(3, 0);
	check("read", (long)(peek(at(2, 4088)) & 0xff), 'x');
}

/* The kernel looks whether the pages are there before it copies with page faults disabled. */
void write_file(void)
{
	int fd = file_or_die();
	uint64_t back = 0;

	put(at(2, 3000), 0x1122334455667788);
	load(3, 0);
	done(write(fd, (void *)at(0, 0), 3 * PAGE), 3 * PAGE, "write");
	expect_pages(0, 2, 0);
	load(3, 0);
	done(pread(fd, &back, sizeof(back), 2 * PAGE + 3000), sizeof(back), "pread");
	check("written", back == 0x1122334455667788, 1);
}

void write_unaligned(void)
{
	int fd = file_or_die();

	load(3, 0);
	done(write(fd, (void *)at(0, 100), 2 * PAGE), 2 * PAGE, "write");
	expect_pages(0, 2, 0);
	load(3, 0);
}

void read_file(void)
{
	int fd = file_or_die();

	load(3, 0);
	done(read(fd, (void *)at(0, 100), 2 * PAGE), 2 * PAGE, "read");
	expect_pages(0, 2, 1);
	load(3, 0);
}

/* Accesses of the kernel with page faults disabled, and small copies. */
void futex_clock(void)
{
	static uint32_t other;
	struct timespec *time;

	load(0, 0);
	done(syscall(SYS_futex, at(1, 0), FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0), -1, "futex");
	check("errno", errno, EAGAIN);
	expect(1, 0);
	load(2, 0);
	done(syscall(SYS_futex, &other, FUTEX_WAKE_OP_PRIVATE, 0, NULL, at(3, 0),
		     FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 7)), 0, "futex");
	expect(3, EITHER); /* locked */
	load(0, 0);
	done(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, at(1, 0)), 0, "clock_gettime");
	expect(1, 1);
	load(0, 0);
	done(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, at(3, -8)), 0, "clock_gettime");
	expect(2, 1);
	expect(3, 1);
	load(0, 0);
	time = (struct timespec *)at(4, 0); /* in user mode, by the vDSO */
	if (clock_gettime(CLOCK_MONOTONIC, time))
		die_errno("clock_gettime");
	expect(4, 1);
	check("added", (long)(peek(at(3, 0)) != 5), 1); /* the later clock_gettime wrote over it */
}

/* What goes by the kernel's own addresses is no access of the process's. */
void invisible(void)
{
	static char data[PAGE];
	struct iovec here = { data, PAGE }, there = { (void *)at(2, 0), PAGE };

	put(at(2, 0), 9);
	load(0, 0);
	done(process_vm_readv(getpid(), &here, 1, &there, 1, 0), PAGE, "process_vm_readv");
	load(1, 0);
	check("seen", data[0], 9);
}

/* -- signals ------------------------------------------------------------------------------------------- */

static void on_usr1(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	load(1, 0);
}

/* The kernel writes the frame to page 9 and reads it back at the end. */
void signal_frame(void)
{
	struct sigaction action = { .sa_sigaction = on_usr1, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	stack_t stack = { .ss_sp = (void *)at(8, 0), .ss_size = 2 * PAGE };

	if (sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL))
		die_errno("sigaltstack");
	for (unsigned int i = 0; i < 8; i++) {
		load(0, 0);
		expect(9, 1);
		syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
		expect(9, EITHER); /* what the compiler made of the handler */
		load(2, 0);
	}
}

static volatile int fault_code;
static volatile long fault_error;
static volatile uint64_t fault_address;

/* The instructions that fault are three bytes long; they are not tried again. */
static void on_segv(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)number;
	fault_code = info->si_code;
	fault_address = (uint64_t)info->si_addr;
	fault_error = (long)registers[REG_ERR];
	registers[REG_RIP] += 3;
}

static void refused_load(unsigned int page)
{
	__asm__ volatile(".byte 0x48, 0x8b, 0x07" : : "D"(at(page, 0)) : "rax", "memory"); /* mov (%rdi), %rax */
}

static void refused_store(unsigned int page)
{
	__asm__ volatile(".byte 0x48, 0x89, 0x07" : : "D"(at(page, 0)) : "memory"); /* mov %rax, (%rdi) */
}

/* An access that the program may not make is no visit, and the signal says why as without a tracer. */
void refused(void)
{
	catch(SIGSEGV, on_segv);
	if (mprotect((void *)at(1, 0), PAGE, PROT_NONE) || munmap((void *)at(3, 0), PAGE) ||
	    mprotect((void *)at(5, 0), PAGE, PROT_READ))
		die_errno("mprotect");
	load(0, 0);
	refused_load(1);
	check("none", fault_code, SEGV_ACCERR);
	check("address", (long)(fault_address - ARENA), PAGE);
	load(2, 0);
	refused_load(3);
	check("unmapped", fault_code, SEGV_MAPERR);
	load(4, 0);
	load(5, 0);
	refused_store(5);
	check("read_only", fault_code, SEGV_ACCERR);
	check("read_only_error", fault_error, 7); /* user, write, present */
	load(6, 0);
	fault_error = 0;
	refused_store(5);
	check("read_only_error_later", fault_error, 7);
	load(7, 0);
}

/* -- changes of the address space ------------------------------------------------------------------------ */

void remap(void)
{
	long wrong = 0;

	put(at(4, 0), 77);
	for (unsigned int page = 0; page < 5; page++)
		store(page, 8, page + 1u);
	if (mprotect((void *)at(1, 0), PAGE, PROT_READ))
		die_errno("mprotect");
	wrong += load(1, 8) != 2;
	if (mprotect((void *)at(1, 0), PAGE, PROT_READ | PROT_WRITE))
		die_errno("mprotect");
	store(1, 8, 20);
	if (munmap((void *)at(2, 0), PAGE) ||
	    mmap((void *)at(2, 0), PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
		die_errno("mmap");
	wrong += load(2, 8) != 0;
	store(2, 8, 30); /* the page of zeros is replaced */
	wrong += load(0, 8) != 1;
	wrong += load(2, 8) != 30;
	if (madvise((void *)at(3, 0), PAGE, MADV_DONTNEED))
		die_errno("madvise");
	wrong += load(3, 8) != 0;
	store(3, 8, 40);
	wrong += load(4, 0) != 77;
	if (mremap((void *)at(4, 0), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at(9, 0)) == MAP_FAILED ||
	    mmap((void *)at(4, 0), PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
		die_errno("mremap");
	wrong += load(4, 0) != 0;
	wrong += load(9, 0) != 77;
	wrong += load(1, 8) != 20;
	wrong += load(3, 8) != 40;
	check("wrong", wrong, 0);
}

/* A page shared with a child is copied at the next write: that changes the page's place, not the visit. */
void fork_copy(void)
{
	long wrong = 0;
	int status = -1;
	pid_t child;

	store(0, 0, 5);
	store(1, 0, 6);
	child = fork();
	if (child < 0)
		die_errno("fork");
	if (!child) { /* another address space, which is not traced */
		for (unsigned int page = 0; page < 4; page++)
			*(volatile uint64_t *)at(page, 0) += 100;
		_exit(*(volatile uint64_t *)at(0, 0) == 105 ? 0 : 1);
	}
	wrong += load(0, 0) != 5;
	store(0, 0, 7);
	wrong += load(1, 0) != 6;
	if (waitpid(child, &status, 0) != child)
		die_errno("waitpid");
	wrong += status != 0;
	wrong += load(0, 0) != 7;
	store(2, 0, 8);
	store(1, 0, 9);
	wrong += load(2, 0) != 8;
	check("wrong", wrong, 0);
}
