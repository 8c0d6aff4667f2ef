// SPDX-License-Identifier: MIT
/*
 * ptkeys: a page with a protection key, in turn with one that has none; accesses that the key's rights refuse come in
 * between. Prints what was read and refused, and how; nothing of it depends on a trace. Without keys: "none".
 *
 * Pages are touched by instructions here and in the kernel, which obeys a thread's rights too (read into the page).
 */
#include "page.h"

#include <setjmp.h>
#include <signal.h>

enum { ROUNDS = 200, EVERYTHING = 0, NO_WRITES = PKEY_DISABLE_WRITE, NOTHING = PKEY_DISABLE_ACCESS };

static volatile uint64_t *keyed, *plain;
static sigjmp_buf back;
static unsigned int refused, other_code, other_key, other_place;
static int key, zeroes;

static void note(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	refused++;
	other_code += info->si_code != SEGV_PKUERR;
	other_key += (int)info->si_pkey != key;
	other_place += info->si_addr != (void *)keyed;
	/* The rights that signal handlers have stay: whoever jumps here sets its own. */
	siglongjmp(back, 1);
}

/* Whether the page may be read, and written to, by this thread; and by the kernel for it. */
static unsigned int allowed(int rights)
{
	volatile unsigned int found = 0;
	volatile uint64_t sum = 0;

	pkey_set(key, rights);
	sum += plain[1];
	if (!sigsetjmp(back, 1)) {
		sum += keyed[0];
		found |= 1;
	}
	pkey_set(key, rights);
	plain[2]++;
	if (!sigsetjmp(back, 1)) {
		keyed[0] = keyed[0] + 1;
		found |= 2;
	}
	pkey_set(key, rights);
	plain[3] = sum;
	if (pread(zeroes, (void *)(keyed + 8), 8, 0) == 8)
		found |= 4;
	return found;
}

int main(int argc, char **argv)
{
	static const int rights[] = { EVERYTHING, NO_WRITES, NOTHING };
	struct sigaction action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO };
	unsigned int seen[8] = { 0 };

	(void)argv;
	if (argc != 1)
		die_usage("usage: ptkeys");
	key = pkey_alloc(0, 0);
	if (key < 0) {
		puts("none");
		return 0;
	}
	zeroes = open_or_die("/dev/zero", O_RDONLY);
	keyed = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (keyed == MAP_FAILED)
		die_errno("mmap");
	plain = keyed + PAGE / 8;
	keyed[0] = plain[0] = 1;
	if (pkey_mprotect((void *)keyed, PAGE, PROT_READ | PROT_WRITE, key) || sigaction(SIGSEGV, &action, NULL))
		die_errno("pkey_mprotect");
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < 3; i++)
			seen[allowed(rights[i])]++;
	pkey_set(key, EVERYTHING);
	printf("key 1: everything %u, reads %u, nothing %u, refused %u, otherwise %u %u %u, written %llu %llu\n", seen[7],
	       seen[1], seen[0], refused, other_code, other_key, other_place, (unsigned long long)keyed[0],
	       (unsigned long long)plain[2]);
	/* The key is given back by the page, then the page has no rights to ask for. */
	if (pkey_mprotect((void *)keyed, PAGE, PROT_READ | PROT_WRITE, 0) || pkey_free(key))
		die_errno("pkey_free");
	keyed[0] = 7;
	printf("then %llu\n", (unsigned long long)keyed[0]);
	return 0;
}
