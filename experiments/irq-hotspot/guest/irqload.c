/*
 * irqload: interrupt loads with a known answer, printed as one line of JSON.
 *
 *   irqload edu  --seconds S --rate HZ --loops N [--irqs-on]
 *                [--from user|kernel|mixed] [--user-work PERCENT]
 *   irqload disk --device PATH --blocks N --block-size BYTES
 *   irqload net  --host ADDRESS --port N --bytes N
 *   irqload syscalls --seconds S
 *   irqload idle --seconds S
 *
 * --seed N (default: KREPRO_SEED, else 1) fixes every random choice.
 *
 * edu raises interrupts of QEMU's edu device, whose handler executes N loops.
 * The gaps between two are exponential (clipped to 1/20 .. 5 mean gaps), so that
 * the load cannot run in step with the timer. In the gaps it computes in user
 * mode or, for the rest of the PERCENT, loops in the kernel in task context.
 * KREPRO_EDU_IRQS_ON=on stands for --irqs-on, so that it can be an arm's parameter.
 *
 * syscalls makes system calls of many kinds, so that ticks fall on many functions.
 */
#include "edu.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum {
	CALIBRATIONS = 8,
	CALIBRATION_LOOPS = 2000,
	USER_CHUNK = 512,
};

struct options {
	uint64_t seconds, rate, loops, user_work, blocks, block_size, port, bytes, seed;
	bool irqs_on;
	const char *from, *device, *host;
};

static volatile uint64_t sink; /* keeps the user work from being optimised away */

/* -ln(u), u uniform in (0, 1]: a unit exponential, without libm. */
static double exponential(uint64_t *state)
{
	double u = (double)((random_u64(state) >> 11) + 1) / 9007199254740992.0; /* 2^53 */
	double z, square, term, sum = 0;
	int halvings = 0;

	for (; u < 0.5; u *= 2)
		halvings++;
	/* ln u = 2 artanh((u - 1) / (u + 1)), |z| <= 1/3 */
	z = (u - 1) / (u + 1);
	square = z * z;
	term = z;
	for (int k = 1; k < 26; k += 2, term *= square)
		sum += term / k;
	return halvings * 0.69314718055994531 - 2 * sum;
}

static void user_work_until(uint64_t until, uint64_t *state)
{
	while (now_ns() < until) {
		uint64_t x = *state | 1;

		for (int i = 0; i < USER_CHUNK; i++)
			x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		sink = x;
	}
}

/* Shortest of a few timings: interrupts of others only ever add to one. */
static uint64_t shortest_raise_ns(const struct edu *edu)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < CALIBRATIONS; i++) {
		uint64_t begin = now_ns(), took;

		edu_raise_user(edu);
		took = now_ns() - begin;
		best = took < best ? took : best;
	}
	return best;
}

static uint64_t shortest_work_ns(const struct edu *edu, uint64_t loops)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < CALIBRATIONS; i++) {
		uint64_t begin = now_ns(), took;

		edu_work(edu, loops);
		took = now_ns() - begin;
		best = took < best ? took : best;
	}
	return best;
}

static void run_edu(const struct options *options)
{
	uint64_t state = options->seed, handled, begin, finish, next, bare_ns, full_ns, empty_ns, work_ns;
	uint64_t from_user = 2 * CALIBRATIONS, from_kernel = 0, late = 0, work_loops = 0;
	double mean = (double)NSEC_PER_SEC / (double)options->rate, loop_ns;
	/* 0..100: how many of a hundred raises come from user mode. */
	uint64_t user_raises = !strcmp(options->from, "user") ? 100 : !strcmp(options->from, "kernel") ? 0 : 50;
	struct edu edu;

	if (user_raises == 50 && strcmp(options->from, "mixed"))
		usage_die("--from: %s is not user, kernel or mixed", options->from);
	edu_open(&edu);
	handled = get_number(edu.handled, "handled");
	put_number(edu.irqs_on, "irqs_on", options->irqs_on);

	/* What one handler run and one loop in task context take, each less its surroundings. */
	put_number(edu.handler_loops, "handler_loops", 0);
	bare_ns = shortest_raise_ns(&edu);
	put_number(edu.handler_loops, "handler_loops", options->loops);
	full_ns = shortest_raise_ns(&edu);
	empty_ns = shortest_work_ns(&edu, 0);
	work_ns = shortest_work_ns(&edu, CALIBRATION_LOOPS);
	work_loops = (uint64_t)CALIBRATIONS * CALIBRATION_LOOPS;
	loop_ns = work_ns > empty_ns ? (double)(work_ns - empty_ns) / CALIBRATION_LOOPS : 1;

	begin = now_ns();
	finish = begin + options->seconds * NSEC_PER_SEC;
	for (next = begin;;) {
		double gap = exponential(&state) * mean;
		uint64_t now = now_ns();

		gap = gap < mean / 20 ? mean / 20 : gap > 5 * mean ? 5 * mean : gap;
		next += (uint64_t)gap;
		if (next > finish)
			break;
		if (next <= now) { /* the handlers alone take longer than the gaps */
			late++;
			next = now;
		} else if (random_below(&state, 100) < options->user_work) {
			user_work_until(next, &state);
		} else {
			uint64_t loops = (uint64_t)((double)(next - now) / loop_ns);

			edu_work(&edu, loops);
			work_loops += loops;
		}
		if (random_below(&state, 100) < user_raises) {
			edu_raise_user(&edu);
			from_user++;
		} else {
			edu_raise_kernel(&edu);
			from_kernel++;
		}
	}
	/* On SMP the last one may still run on another CPU. */
	for (uint64_t limit = now_ns() + NSEC_PER_SEC; now_ns() < limit;)
		if (get_number(edu.handled, "handled") - handled >= from_user + from_kernel)
			break;
	printf("{\"program\": \"irqload\", \"mode\": \"edu\", \"seed\": %llu, \"rate\": %llu, "
	       "\"handler_loops\": %llu, \"irqs_on\": %s, \"raised_user\": %llu, \"raised_kernel\": %llu, "
	       "\"calibration_raises\": %d, \"handled\": %llu, \"late\": %llu, \"handler_ns\": %llu, "
	       "\"work_loops\": %llu, \"loop_ns\": %.3f, \"elapsed_ns\": %llu}\n",
	       (unsigned long long)options->seed, (unsigned long long)options->rate,
	       (unsigned long long)options->loops, options->irqs_on ? "true" : "false",
	       (unsigned long long)from_user, (unsigned long long)from_kernel, 2 * CALIBRATIONS,
	       (unsigned long long)(get_number(edu.handled, "handled") - handled), (unsigned long long)late,
	       (unsigned long long)(full_ns > bare_ns ? full_ns - bare_ns : 0), (unsigned long long)work_loops,
	       loop_ns, (unsigned long long)(now_ns() - begin));
	put_number(edu.handler_loops, "handler_loops", 0);
	put_number(edu.irqs_on, "irqs_on", 0);
}

static void run_disk(const struct options *options)
{
	int fd = open_or_die(options->device, O_RDONLY | O_DIRECT);
	uint64_t state = options->seed, begin = now_ns(), bytes = 0, blocks;
	off_t size = lseek(fd, 0, SEEK_END);
	void *buffer;

	if (size < 0)
		die_errno("%s: size", options->device);
	blocks = (uint64_t)size / options->block_size;
	if (!blocks || blocks > UINT32_MAX)
		die("%s: %llu blocks of %llu bytes", options->device, (unsigned long long)blocks,
		    (unsigned long long)options->block_size);
	if (posix_memalign(&buffer, 4096, options->block_size))
		die("no memory for a block of %llu bytes", (unsigned long long)options->block_size);
	for (uint64_t i = 0; i < options->blocks; i++) {
		off_t offset = (off_t)(random_below(&state, (uint32_t)blocks) * options->block_size);
		ssize_t n = pread(fd, buffer, options->block_size, offset);

		if (n < 0 && errno == EINTR) {
			i--;
			continue;
		}
		if (n < 0)
			die_errno("%s: reading at %lld", options->device, (long long)offset);
		if ((uint64_t)n != options->block_size)
			die("%s: short read at %lld", options->device, (long long)offset);
		bytes += (uint64_t)n;
	}
	printf("{\"program\": \"irqload\", \"mode\": \"disk\", \"seed\": %llu, \"reads\": %llu, \"bytes\": %llu, "
	       "\"elapsed_ns\": %llu}\n",
	       (unsigned long long)options->seed, (unsigned long long)options->blocks,
	       (unsigned long long)bytes, (unsigned long long)(now_ns() - begin));
	free(buffer);
	close(fd);
}

static void run_net(const struct options *options)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)options->port) };
	static char buffer[65536];
	uint64_t begin, received = 0;
	int fd;

	if (inet_pton(AF_INET, options->host, &address.sin_addr) != 1)
		usage_die("--host: %s is not an IPv4 address", options->host);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die_errno("socket");
	begin = now_ns();
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)))
		die_errno("connecting to %s:%llu", options->host, (unsigned long long)options->port);
	while (received < options->bytes) {
		uint64_t want = options->bytes - received;
		ssize_t n = recv(fd, buffer, want < sizeof(buffer) ? want : sizeof(buffer), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			die_errno("receiving after %llu bytes", (unsigned long long)received);
		if (n == 0)
			die("the source ended after %llu of %llu bytes", (unsigned long long)received,
			    (unsigned long long)options->bytes);
		received += (uint64_t)n;
	}
	printf("{\"program\": \"irqload\", \"mode\": \"net\", \"bytes\": %llu, \"elapsed_ns\": %llu}\n",
	       (unsigned long long)received, (unsigned long long)(now_ns() - begin));
	close(fd);
}

/* One system call, or a few that belong together; `kind` is 0..7. */
static void system_call(uint64_t kind, const int files[2], const int ends[2])
{
	static char buffer[4096];
	const size_t size = sizeof(buffer);
	char *pages;
	ssize_t n = 0;
	int fd;

	switch (kind) {
	case 0:
		syscall(SYS_getppid);
		break;
	case 1:
	case 2:
		n = pread(files[kind - 1], buffer, size, 0);
		break;
	case 3:
		n = access("/proc/self/no/such/file", R_OK) == 0 || errno != ENOENT ? -1 : 0;
		break;
	case 4:
		n = write(ends[1], buffer, 512) == 512 && read(ends[0], buffer, 512) == 512 ? 0 : -1;
		break;
	case 5:
		pages = mmap(NULL, 4 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (pages == MAP_FAILED)
			die_errno("mmap");
		for (size_t at = 0; at < 4 * size; at += size)
			pages[at] = 1;
		n = munmap(pages, 4 * size);
		break;
	case 6:
		fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? -1 : read(fd, buffer, size);
		close(fd);
		break;
	default:
		n = readlink("/proc/self/exe", buffer, size);
	}
	if (n < 0)
		die_errno("system call of kind %d", (int)kind);
}

static void run_syscalls(const struct options *options)
{
	const int files[2] = { open_or_die("/proc/self/stat", O_RDONLY), open_or_die("/proc/self/maps", O_RDONLY) };
	uint64_t state = options->seed, begin = now_ns(), rounds = 0;
	int ends[2];

	if (pipe(ends))
		die_errno("pipe");
	for (; now_ns() - begin < options->seconds * NSEC_PER_SEC; rounds++)
		system_call(random_below(&state, 8), files, ends);
	printf("{\"program\": \"irqload\", \"mode\": \"syscalls\", \"seed\": %llu, \"rounds\": %llu, "
	       "\"elapsed_ns\": %llu}\n",
	       (unsigned long long)options->seed, (unsigned long long)rounds,
	       (unsigned long long)(now_ns() - begin));
}

static void run_idle(const struct options *options)
{
	uint64_t begin = now_ns(), end = begin + options->seconds * NSEC_PER_SEC;

	/* poll, not nanosleep: its system call takes no time structure of either size. */
	for (uint64_t now = begin; now < end; now = now_ns())
		if (poll(NULL, 0, (int)((end - now + 999999) / 1000000)) < 0 && errno != EINTR)
			die_errno("poll");
	printf("{\"program\": \"irqload\", \"mode\": \"idle\", \"elapsed_ns\": %llu}\n",
	       (unsigned long long)(now_ns() - begin));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(const struct options *options);
		const char *needs; /* options without a default */
	} modes[] = {
		{ "edu", run_edu, "srl" },
		{ "disk", run_disk, "dbB" },
		{ "net", run_net, "hpn" },
		{ "syscalls", run_syscalls, "s" },
		{ "idle", run_idle, "s" },
	};
	static const struct option long_options[] = {
		{ "seconds", required_argument, NULL, 's' },
		{ "rate", required_argument, NULL, 'r' },
		{ "loops", required_argument, NULL, 'l' },
		{ "irqs-on", no_argument, NULL, 'i' },
		{ "from", required_argument, NULL, 'f' },
		{ "user-work", required_argument, NULL, 'u' },
		{ "device", required_argument, NULL, 'd' },
		{ "blocks", required_argument, NULL, 'b' },
		{ "block-size", required_argument, NULL, 'B' },
		{ "host", required_argument, NULL, 'h' },
		{ "port", required_argument, NULL, 'p' },
		{ "bytes", required_argument, NULL, 'n' },
		{ "seed", required_argument, NULL, 'S' },
		{ NULL, 0, NULL, 0 },
	};
	const char *seed = getenv("KREPRO_SEED"), *irqs_on = getenv("KREPRO_EDU_IRQS_ON");
	struct options options = { .user_work = 50, .from = "mixed", .seed = 1 };
	char given[128] = "";
	size_t mode = 0;
	int option;

	for (; argc > 1 && mode < sizeof(modes) / sizeof(modes[0]); mode++)
		if (!strcmp(argv[1], modes[mode].name))
			break;
	if (argc < 2 || mode == sizeof(modes) / sizeof(modes[0]))
		usage_die("usage: %s edu|disk|net|syscalls|idle OPTIONS", program_invocation_short_name);
	if (seed)
		options.seed = argument("KREPRO_SEED", seed, 0, UINT64_MAX);
	options.irqs_on = irqs_on && !strcmp(irqs_on, "on");

	optind = 2;
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (option) {
		case 's': options.seconds = argument("--seconds", optarg, 1, 86400); break;
		case 'r': options.rate = argument("--rate", optarg, 1, 1000000); break;
		case 'l': options.loops = argument("--loops", optarg, 0, 5000000); break;
		case 'i': options.irqs_on = true; break;
		case 'f': options.from = optarg; break;
		case 'u': options.user_work = argument("--user-work", optarg, 0, 100); break;
		case 'd': options.device = optarg; break;
		case 'b': options.blocks = argument("--blocks", optarg, 1, 100000000); break;
		case 'B': options.block_size = argument("--block-size", optarg, 512, 1 << 24); break;
		case 'h': options.host = optarg; break;
		case 'p': options.port = argument("--port", optarg, 1, 65535); break;
		case 'n': options.bytes = argument("--bytes", optarg, 1, UINT64_MAX); break;
		case 'S': options.seed = argument("--seed", optarg, 0, UINT64_MAX); break;
		default: return EXIT_USAGE;
		}
		given[option & 127] = 1;
	}
	if (optind != argc)
		usage_die("%s: not an option", argv[optind]);
	for (const char *need = modes[mode].needs; *need; need++)
		for (const struct option *o = long_options; o->name; o++)
			if (o->val == *need && !given[(unsigned char)*need])
				usage_die("%s needs --%s", modes[mode].name, o->name);
	modes[mode].run(&options);
	if (fflush(stdout) || ferror(stdout))
		die_errno("standard output");
	return 0;
}
