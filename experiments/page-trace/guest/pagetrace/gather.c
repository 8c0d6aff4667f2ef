// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "gather.h"

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { KNOWN = 1024, LONGEST = 15 };

/* Instructions of several pages that have been looked at, each in its place: few of a program's are. */
static struct {
	uint64_t ip;
	bool gather;
} known[KNOWN];

/* VEX or EVEX, map 0F38, opcodes 90 to 93 (gather) and A0 to A3 (scatter), behind prefixes of segment and address. */
static bool is_gather(const uint8_t *code, size_t n)
{
	size_t at = 0, opcode;
	bool vex, evex;

	while (at < n && (code[at] == 0x64 || code[at] == 0x65 || code[at] == 0x67))
		at++;
	if (at + 5 > n)
		return false;
	vex = code[at] == 0xc4 && (code[at + 1] & 0x1f) == 2;
	evex = code[at] == 0x62 && (code[at + 1] & 0x07) == 2;
	opcode = at + (evex ? 4 : 3);
	return (vex || evex) && ((code[opcode] & 0xfc) == 0x90 || (evex && (code[opcode] & 0xfc) == 0xa0));
}

/* The task may be gone: then nothing is known of it. */
static bool look(pid_t tid, uint64_t ip)
{
	uint8_t code[LONGEST];
	struct iovec here = { code, sizeof(code) }, there = { (void *)(uintptr_t)ip, sizeof(code) };
	ssize_t got = process_vm_readv(tid, &here, 1, &there, 1, 0);
	size_t place = ip % KNOWN;

	if (got < 0) { /* the page behind is not there */
		there.iov_len = 4096 - ip % 4096 < LONGEST ? 4096 - ip % 4096 : LONGEST;
		got = process_vm_readv(tid, &here, 1, &there, 1, 0);
	}
	if (got <= 0)
		return false;
	known[place].ip = ip;
	known[place].gather = is_gather(code, (size_t)got);
	return known[place].gather;
}

uint64_t gather_visits(const struct page_trace_record *record, size_t n)
{
	uint64_t found = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t flags = record[i].word[0] & 0xfff, ip = record[i].word[2] & ((1ull << 48) - 1);
		pid_t tid = (pid_t)(record[i].word[2] >> 48 << 12 | (record[i].word[1] & 0xfff));

		if (flags >> 8 == PAGE_TRACE_T_EXEC) {
			for (size_t k = 0; k < KNOWN; k++)
				known[k].ip = 0;
		} else if (!(flags >> 8) && (flags & (PAGE_TRACE_F_SAME | PAGE_TRACE_F_AGAIN)) &&
			   !(flags & PAGE_TRACE_F_KERNEL)) {
			found += known[ip % KNOWN].ip == ip ? known[ip % KNOWN].gather : look(tid, ip);
		}
	}
	return found;
}
