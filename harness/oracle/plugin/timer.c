// SPDX-License-Identifier: GPL-2.0-or-later
#include "timer.h"

enum { TIMER_BYTES = 512, MAX_USERS = 8, DEFAULT_NS = 10000000 };

static uint64_t timer[TIMER_BYTES / 8]; /* a QEMUTimer and room to spare */
static uint64_t state, mean = DEFAULT_NS;
static int64_t due;
static bool started;
static void (*users[MAX_USERS])(int64_t now_ns);
static unsigned int n_users;

const char *timer_lacks(const struct settings *settings)
{
	if (settings->shift < 0)
		return "needs the virtual clock";
	if (!timer_init_full || !timer_mod_ns || !qemu_clock_get_ns)
		return "this QEMU does not export its timers";
	return NULL;
}

void timer_add(const struct settings *settings, uint64_t mean_ns, void (*at)(int64_t now_ns))
{
	state = settings->seed;
	if (mean_ns)
		mean = mean_ns;
	users[n_users++] = at;
}

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t random_u64(void)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static void on_timer(void *data)
{
	int64_t now = qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);

	(void)data;
	if (!due) { /* armed by timer_start: from here on, the clock is known */
		due = now + (int64_t)(random_u64() % mean);
		timer_mod_ns(timer, due);
		return;
	}
	for (unsigned int i = 0; i < n_users; i++)
		users[i](now);
	/* Uniform over half to one and a half periods. */
	due += (int64_t)(mean / 2 + random_u64() % mean);
	timer_mod_ns(timer, due);
}

/*
 * A moment of the guest's. A moment of the host's, such as the first translation, would let the samples depend on
 * where a saved state was stopped. The clock cannot be read in a callback of an instruction, but a time that is over
 * makes the timer fire behind the block that the CPU is in.
 */
void timer_start(void)
{
	if (started || !n_users)
		return;
	started = true;
	timer_init_full(timer, NULL, QEMU_CLOCK_VIRTUAL, 1, 0, on_timer, NULL);
	timer_mod_ns(timer, 1);
}
