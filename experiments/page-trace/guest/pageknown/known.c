// SPDX-License-Identifier: MIT
#include "known.h"

struct list expected, iterations;
unsigned int n_checks, n_failed;
struct check checks[MAX_CHECKS];
static char signal_stack[65536];

void append(struct list *list, unsigned int page, int write)
{
	if (list->n && list->visit[list->n - 1].page == (int16_t)page)
		return;
	if (list->n == MAX_VISITS)
		die("more than %d visits", MAX_VISITS);
	list->visit[list->n].page = (int16_t)page;
	list->visit[list->n++].write = (int8_t)write;
}

void check(const char *name, long value, long wanted)
{
	if (n_checks == MAX_CHECKS)
		die("more than %d checks", MAX_CHECKS);
	checks[n_checks].name = name;
	checks[n_checks++].value = value;
	n_failed += value != wanted;
}

void expect_rounds(unsigned int rounds, int write_b)
{
	for (unsigned int i = 0; i < rounds; i++) {
		expect(0, 0);
		expect(1, write_b);
	}
}

void catch(int number, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	stack_t stack = { .ss_sp = signal_stack, .ss_size = sizeof(signal_stack) };

	if (sigaltstack(&stack, NULL) || sigaction(number, &action, NULL))
		die_errno("sigaction");
}
