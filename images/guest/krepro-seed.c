/*
 * krepro-seed SEED: make what follows a function of SEED.
 *
 * A restored guest has the same random state every time. Mix SEED into the kernel's pool, rekey its generator
 * (so ASLR and getrandom() differ per trial and repeat per seed), and spin for a SEED-dependent part of two
 * 100 Hz ticks, so that trials do not all start at one phase of the timer.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define WORDS 8
#define PHASE_NS 20000000u

/* splitmix64 (Steele, Lea, Flood 2014): spreads a small seed over a whole block. */
static uint64_t next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "krepro-seed: %s: %s\n", what, strerror(errno));
	exit(1);
}

int main(int argc, char **argv)
{
	struct {
		struct rand_pool_info info;
		uint64_t words[WORDS];
	} entropy;
	uint64_t state;
	int64_t end;
	char *rest;
	int fd, i;

	if (argc != 2) {
		fprintf(stderr, "usage: krepro-seed SEED\n");
		return 2;
	}
	errno = 0;
	state = strtoull(argv[1], &rest, 10);
	if (errno || *rest || rest == argv[1]) {
		fprintf(stderr, "krepro-seed: %s is not a seed\n", argv[1]);
		return 2;
	}
	for (i = 0; i < WORDS; i++)
		entropy.words[i] = next(&state);
	entropy.info.entropy_count = 8 * sizeof(entropy.words);
	entropy.info.buf_size = sizeof(entropy.words);
	fd = open("/dev/urandom", O_WRONLY);
	if (fd < 0)
		die("/dev/urandom");
	if (ioctl(fd, RNDADDENTROPY, &entropy))
		die("RNDADDENTROPY");
	if (ioctl(fd, RNDRESEEDCRNG))
		die("RNDRESEEDCRNG");
	close(fd);

	end = now_ns() + (int64_t)(next(&state) % PHASE_NS);
	while (now_ns() < end)
		;
	return 0;
}
