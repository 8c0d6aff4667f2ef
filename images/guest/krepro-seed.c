// SPDX-License-Identifier: MIT
/*
 * krepro-seed SEED: make what follows a function of SEED.
 *
 * A restored guest has the same random state every time. Mix SEED into the kernel's pool, rekey its generator
 * (so ASLR and getrandom() differ per trial and repeat per seed), and spin for a SEED-dependent part of two
 * 100 Hz ticks, so that trials do not all start at one phase of the timer.
 */
#include "krepro.h"

#include <linux/random.h>
#include <sys/ioctl.h>

#define WORDS 8
#define PHASE_NS 20000000u

int main(int argc, char **argv)
{
	struct {
		struct rand_pool_info info;
		uint64_t words[WORDS];
	} entropy;
	uint64_t state, end;
	int fd, i;

	if (argc != 2)
		die_usage("usage: krepro-seed SEED");
	state = argument("SEED", argv[1], 0, UINT64_MAX);
	for (i = 0; i < WORDS; i++)
		entropy.words[i] = random_u64(&state);
	entropy.info.entropy_count = 8 * sizeof(entropy.words);
	entropy.info.buf_size = sizeof(entropy.words);
	fd = open_or_die("/dev/urandom", O_WRONLY);
	if (ioctl(fd, RNDADDENTROPY, &entropy))
		die_errno("RNDADDENTROPY");
	if (ioctl(fd, RNDRESEEDCRNG))
		die_errno("RNDRESEEDCRNG");
	close(fd);

	end = now_ns() + random_u64(&state) % PHASE_NS;
	while (now_ns() < end)
		;
	return 0;
}
