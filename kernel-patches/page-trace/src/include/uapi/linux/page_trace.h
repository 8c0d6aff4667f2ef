/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Page trace: the order of pages that a process touches. See
 * Documentation/admin-guide/mm/page_trace.rst.
 */
#ifndef _UAPI_LINUX_PAGE_TRACE_H
#define _UAPI_LINUX_PAGE_TRACE_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* page_trace_start.flags */
#define PAGE_TRACE_FOLLOW	(1u << 0)	/* trace children too */
#define PAGE_TRACE_CODE		(1u << 1)	/* PAGE_TRACE_T_CODE records */
#define PAGE_TRACE_WROTE	(1u << 2)	/* PAGE_TRACE_T_WROTE records */

#define PAGE_TRACE_MAX_WINDOW	64

/**
 * struct page_trace_start - what to trace
 * @pid:	a process, in the caller's pid namespace
 * @window:	data pages that stay accessible, 1 to PAGE_TRACE_MAX_WINDOW
 * @flags:	PAGE_TRACE_FOLLOW, PAGE_TRACE_CODE, PAGE_TRACE_WROTE
 * @records:	size of the ring: a power of two, 1024 to 4194304
 */
struct page_trace_start {
	__s32 pid;
	__u32 window;
	__u32 flags;
	__u32 records;
};

/**
 * struct page_trace_stats - page faults of the traced tasks, each counted once
 * @faults:	all; the sum of the next six
 * @records:	a visit went into the ring
 * @lost:	a visit found the ring full
 * @code:	an executable page became accessible
 * @slow:	left to the kernel's own page fault handler
 * @upgrades:	first write to an accessible page that had been clean
 * @spurious:	the page was accessible already, or the instruction was begun anew
 * @steps:	instructions stepped over because they touch several pages
 * @kept:	string instructions and the like, which kept their pages
 * @drops:	accessible pages dropped because the kernel changed or flushed them
 * @recycled:	all pages of a task dropped because its tables were used up
 * @tasks:	tasks that were traced
 * @live:	of these, still traced
 * @unfit:	tasks not seen whole: executable data, an LDT with page table
 *		isolation, no memory for page tables, or a child that another
 *		trace had first
 * @other_lost:	records other than visits that found the ring full
 */
struct page_trace_stats {
	__u64 faults;
	__u64 records;
	__u64 lost;
	__u64 code;
	__u64 slow;
	__u64 upgrades;
	__u64 spurious;
	__u64 steps;
	__u64 kept;
	__u64 drops;
	__u64 recycled;
	__u64 tasks;
	__u64 live;
	__u64 unfit;
	__u64 other_lost;
};

#define PAGE_TRACE_START	_IOW('p', 0xe0, struct page_trace_start)
#define PAGE_TRACE_STOP		_IO('p', 0xe1)
#define PAGE_TRACE_STATS	_IOR('p', 0xe2, struct page_trace_stats)

/*
 * A record is three 64-bit words:
 *
 *   [0]  time << 12 | flags		time: ns of CLOCK_MONOTONIC since the start
 *   [1]  page << 12 | tid bits 0-11	page: number, address >> 12
 *   [2]  tid bits 12-27 << 48 | ip	ip: bits 0-47, to be sign-extended
 *
 * flags bits 0-7 are PAGE_TRACE_F_*, bits 8-11 the type.
 */
struct page_trace_record {
	__u64 word[3];
};

#define PAGE_TRACE_F_WRITE	(1u << 0)	/* the visit begins with a write */
#define PAGE_TRACE_F_KERNEL	(1u << 1)	/* by the kernel, for the task */
#define PAGE_TRACE_F_SAME	(1u << 2)	/* by the instruction of the visit before */
/*
 * The instruction was begun anew. Its visits so far were none: those of this
 * task and mode (user, kernel) from its last one without F_SAME on.
 */
#define PAGE_TRACE_F_AGAIN	(1u << 3)

#define PAGE_TRACE_T_VISIT	0
#define PAGE_TRACE_T_CODE	1	/* a code page became accessible */
#define PAGE_TRACE_T_LOST	2	/* page: visits lost since the last record */
#define PAGE_TRACE_T_TASK	3	/* traced from here on; page: its parent's tid or 0 */
#define PAGE_TRACE_T_EXEC	4	/* has a new address space */
#define PAGE_TRACE_T_EXIT	5	/* traced no longer */
#define PAGE_TRACE_T_WROTE	6	/* page's last visit began with a read, and wrote */

/**
 * struct page_trace_ring - first page of the mapping; records begin at @offset
 * @head:	records ever written, by the kernel
 * @tail:	records ever read, by the reader
 * @records:	size of the ring
 * @offset:	of the first record, in bytes
 * @ended:	nothing is traced any more
 */
struct page_trace_ring {
	__u64 head;
	__u64 tail;
	__u32 records;
	__u32 offset;
	__u32 ended;
};

#endif /* _UAPI_LINUX_PAGE_TRACE_H */
