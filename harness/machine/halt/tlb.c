// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Has QEMU size its TLB by what the guest does, not by the host's clock.
 *
 * QEMU's TLB in software grows and shrinks at flushes, by how much of it was in use within the last 100 ms of the
 * host's clock (tlb_mmu_resize_locked() in accel/tcg/cputlb.c). Its size decides which entries collide, and so how long
 * each is kept. The kernel clears a page's accessed bit without a flush, and an access sets it again only where the
 * entry is gone. Reclaim and DAMON choose pages by that bit: a guest that was short of memory took one of two ways, by
 * the host's load.
 *
 * This file is preloaded, so QEMU's own calls of gettimeofday() come here. In the thread of the CPU each is a flush, and
 * passes for 20 ms: the TLB is sized by what was in use in the last five or six. In the main thread, which makes the
 * TLB, it is the beginning. Libraries, which put the date into events, get the date.
 */
#define _GNU_SOURCE
#include "tlb.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/time.h>
#include <time.h>

enum { FLUSH_US = 20000, SECOND_US = 1000000 };

static uintptr_t first, last; /* of the program's own code and data */
static pthread_t main_thread;
static __thread int64_t flushes;

static int find_program(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	(void)data;
	first = UINTPTR_MAX;
	for (unsigned int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + part->p_vaddr;

		if (part->p_type != PT_LOAD)
			continue;
		first = at < first ? at : first;
		last = at + part->p_memsz > last ? at + part->p_memsz : last;
	}
	return 1; /* the program is the first of all */
}

__attribute__((constructor)) static void begin(void)
{
	main_thread = pthread_self();
	dl_iterate_phdr(find_program, NULL);
}

static int time_of_day(struct timeval *time, uintptr_t caller)
{
	struct timespec date;

	if (caller >= first && caller < last) {
		int64_t us = pthread_equal(pthread_self(), main_thread) ? 0 : ++flushes * FLUSH_US;

		*time = (struct timeval){ us / SECOND_US, us % SECOND_US };
		return 0;
	}
	clock_gettime(CLOCK_REALTIME, &date);
	*time = (struct timeval){ date.tv_sec, date.tv_nsec / 1000 };
	return 0;
}

EXPORT int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
	(void)zone;
	return time_of_day(time, (uintptr_t)__builtin_return_address(0));
}

/* Whether the first gettimeofday() of the process is the one above. */
bool tlb_is_sized(void)
{
	Dl_info ours, found;

	return dladdr((void *)find_program, &ours) && dladdr(dlsym(RTLD_DEFAULT, "gettimeofday"), &found) &&
	       ours.dli_fbase == found.dli_fbase;
}
