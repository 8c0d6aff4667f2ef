// SPDX-License-Identifier: MIT
/*
 * ptblind rwx|ldt: what a page trace cannot see: 500 visits to a page that is writable and executable, each between two
 * to a page of data; or the same to two pages of data by a process with an LDT.
 */
#include "krepro.h"

#include <asm/ldt.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 4096, VISITS = 500 };

static volatile uint64_t *page(int protection)
{
	void *at = mmap(NULL, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die_errno("no page");
	return at;
}

int main(int argc, char **argv)
{
	const bool rwx = argc == 2 && !strcmp(argv[1], "rwx");
	volatile uint64_t *data, *blind;
	struct user_desc descriptor = { .entry_number = 0, .limit = 1, .seg_32bit = 1 };

	if (argc != 2 || (!rwx && strcmp(argv[1], "ldt")))
		die_usage("usage: ptblind rwx|ldt");
	if (!rwx && syscall(SYS_modify_ldt, 1, &descriptor, sizeof(descriptor)))
		die_errno("modify_ldt");
	data = page(PROT_READ | PROT_WRITE);
	blind = page(PROT_READ | PROT_WRITE | (rwx ? PROT_EXEC : 0));
	for (int i = 0; i < VISITS; i++) {
		*data = i;
		*blind = i;
	}
	return 0;
}
