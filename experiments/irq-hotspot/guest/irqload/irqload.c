// SPDX-License-Identifier: MIT
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
#include "loads.h"

#include <getopt.h>

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
	const char *irqs_on = getenv("KREPRO_EDU_IRQS_ON");
	struct options options = { .user_work = 50, .from = "mixed", .seed = default_seed() };
	char given[128] = "";
	size_t mode = 0;
	int option;

	for (; argc > 1 && mode < sizeof(modes) / sizeof(modes[0]); mode++)
		if (!strcmp(argv[1], modes[mode].name))
			break;
	if (argc < 2 || mode == sizeof(modes) / sizeof(modes[0]))
		die_usage("usage: %s edu|disk|net|syscalls|idle OPTIONS", program_invocation_short_name);
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
		die_usage("%s: not an option", argv[optind]);
	for (const char *need = modes[mode].needs; *need; need++)
		for (const struct option *o = long_options; o->name; o++)
			if (o->val == *need && !given[(unsigned char)*need])
				die_usage("%s needs --%s", modes[mode].name, o->name);
	modes[mode].run(&options);
	flush_or_die();
	return 0;
}
