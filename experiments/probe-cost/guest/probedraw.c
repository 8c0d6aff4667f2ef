// SPDX-License-Identifier: MIT
/*
 * probedraw: draw scripts for probecost from a grammar that nobody has fitted anything to.
 *
 *   probedraw [SCRIPTS [CHECK]]        by the trial's seed; CHECK as probecost has it
 *
 * A script is a workload, one to three places that it passes, a kind of probe at each, and up to four consumers: records,
 * filters on numbers and on paths, stacks, aggregations, programs that call helpers or tell events; perhaps a sampler; and
 * perhaps readers. No (provider, point, workload) is one of fit.sh: a test reads both.
 */
#include "krepro.h"

enum { PLACES = 3, CONSUMERS = 4 };

/* Kinds of probes that a place may have. */
enum {
	FTRACE = 1,
	OPTIMISED = 2,
	INT3 = 4,
	RETURN = 8,
	FPROBE = 16,
	EVENT = 32,
	RAW = 64,
	ENTER = 128,
	EXIT = 256,
	UPROBE = 512,
	URETURN = 1024,
	FUNCTION = FTRACE | INT3 | RETURN | FPROBE,
};

static const struct kind {
	int bit;
	const char *provider, *suffix;
} kinds[] = {
	{ FTRACE, "kprobe-ftrace", "" },	{ OPTIMISED, "kprobe-optimised", "+5" }, { INT3, "kprobe-int3", "+5" },
	{ RETURN, "kretprobe", "" },		{ FPROBE, "fprobe", "" },		 { EVENT, "tracepoint", "" },
	{ RAW, "raw-tracepoint", "" },		{ ENTER, "syscall", "" },		 { EXIT, "syscall-return", "" },
	{ UPROBE, "uprobe", "" },		{ URETURN, "uretprobe", "" },
};

/* Where a workload passes. `path`: its second argument is a path of the user's; `field`: a number that the event has. */
static const struct place {
	const char *work, *point;
	int kinds, path;
	const char *field;
} places[] = {
	{ "files", "do_sys_openat2", FUNCTION | OPTIMISED, 1, NULL },
	{ "files", "vfs_open", FUNCTION, 0, NULL },
	{ "files", "filp_close", FUNCTION, 0, NULL },
	{ "files", "sys_enter_openat", ENTER, 0, "flags" },
	{ "files", "sys_exit_pread64", EXIT, 0, "ret" },
	{ "files", "vfs_read", FUNCTION | OPTIMISED, 0, NULL },
	{ "search", "do_faccessat", FUNCTION, 0, NULL },
	{ "search", "vfs_statx", FUNCTION, 0, NULL },
	{ "search", "sys_enter_access", ENTER, 0, "mode" },
	{ "search", "sys_exit_newfstatat", EXIT, 0, "ret" },
	{ "search", "getname_flags", FUNCTION, 0, NULL },
	{ "service", "pipe_write", FUNCTION, 0, NULL },
	{ "service", "vfs_read", FUNCTION | OPTIMISED, 0, NULL },
	{ "service", "sys_enter_read", ENTER, 0, "count" },
	{ "service", "sys_exit_read", EXIT, 0, "ret" },
	{ "service", "u_nop", UPROBE | URETURN, 0, NULL },
	{ "pipe", "vfs_write", FUNCTION | OPTIMISED, 0, NULL },
	{ "pipe", "pipe_write", FUNCTION, 0, NULL },
	{ "pipe", "sys_enter_write", ENTER, 0, "count" },
	{ "faults", "handle_mm_fault", FUNCTION, 0, NULL },
	{ "faults", "do_mmap", FUNCTION, 0, NULL },
	{ "faults", "sys_enter_munmap", ENTER, 0, "len" },
	{ "fork", "handle_mm_fault", FUNCTION, 0, NULL },
	{ "fork", "sched/sched_process_fork", EVENT | RAW, 0, "child_pid" },
	{ "fork", "sched/sched_process_exit", EVENT | RAW, 0, "prio" },
	{ "fork", "kernel_clone", FUNCTION, 0, NULL },
	{ "hot", "u_nop", UPROBE | URETURN, 0, NULL },
	{ "hot", "task/task_rename", EVENT | RAW, 0, "pid" },
	{ "hot", "__x64_sys_getppid", FUNCTION | OPTIMISED, 0, NULL },
	{ "hot", "sys_exit_prctl", EXIT, 0, "ret" },
	{ "sort", "u_push", UPROBE | URETURN, 0, NULL },
	{ "sort", "vfs_write", FUNCTION | OPTIMISED, 0, NULL },
	{ "pingpong", "sched/sched_switch", EVENT | RAW, 0, "next_pid" },
	{ "pingpong", "sched/sched_waking", EVENT | RAW, 0, "prio" },
	{ "pingpong", "pipe_write", FUNCTION, 0, NULL },
	{ "pingpong", "sys_enter_read", ENTER, 0, "fd" },
	{ "signal", "signal/signal_deliver", EVENT | RAW, 0, "sig" },
	{ "signal", "sys_enter_kill", ENTER, 0, "sig" },
	{ "signal", "do_send_sig_info", FUNCTION, 0, NULL },
	{ "brk", "handle_mm_fault", FUNCTION, 0, NULL },
	{ "brk", "sys_enter_brk", ENTER, 0, "brk" },
	{ "yield", "sys_enter_sched_yield", ENTER, 0, NULL },
	{ "yield", "__x64_sys_sched_yield", FUNCTION, 0, NULL },
	{ "close", "__x64_sys_close", FUNCTION, 0, NULL },
	{ "close", "sys_exit_close", EXIT, 0, "ret" },
};

static const struct {
	const char *name;
	int rounds;
} works[] = {
	{ "files", 150 },	{ "search", 100 }, { "service", 150 }, { "pipe", 200 },	 { "faults", 30 }, { "fork", 12 },
	{ "hot", 150 },		{ "sort", 30 },	   { "pingpong", 120 }, { "signal", 150 }, { "brk", 80 },   { "yield", 200 },
	{ "close", 300 },
};

static const char *const calls[] = {
	"pid:1", "pid:2,time:1", "comm:1", "uid:1,cpu:1", "task:1,read/32:1", "look/16:1,put/16:1", "time:1,hput/8:1",
	"hlook/8:1,time:1", "pid:1,look/24:1,put/24:1", "renew/16:1", "ustring/48:1", "random:1,look/8:1,put/8:1",
	"comm:1,look/40:1,put/40:1", "stack:1,look/8:1,put/8:1", "task:1,string/64:1", "boot:1,uread/16:1",
};

static uint64_t state;

static uint32_t below(uint32_t count)
{
	return (uint32_t)random_below(&state, count);
}

static bool chance(uint32_t in)
{
	return !below(in);
}

static void draw_program(const struct kind *kind, bool rings)
{
	printf("use bpf=%u", below(4) * 15);
	if (chance(4))
		printf(" map=%u", 1 + below(2));
	/* A stack of a raw trace point or of fprobe is not looked at before. */
	if (!chance(3)) {
		const char *text = calls[below(sizeof(calls) / sizeof(calls[0]))];

		if (kind->bit & (RAW | FPROBE) && strstr(text, "stack"))
			text = calls[0];
		printf(" calls=%s", text);
	}
	if (rings)
		printf(" %s=%u", chance(2) ? "ring" : "perf", 8 * (1 + below(12)));
	printf("\n");
}

/* A consumer of a probe that has the numbers `first` and, with `path`, a path. */
static void draw_consumer(const struct kind *kind, const char *first, bool path, bool drained, bool programs)
{
	/* The kernel lets a user probe's event be traced or have programs, not both. */
	if (kind->bit & (FPROBE | RAW) || (kind->bit & (UPROBE | URETURN) ? programs : chance(3))) {
		draw_program(kind, drained && chance(2));
		return;
	}
	printf("use");
	if (path && chance(2))
		printf(" filter=p%s'/%s'", chance(2) ? "~" : "!=", chance(2) ? "run/probe*" : "etc*");
	else if (first && chance(3))
		printf(" filter=%s%s%u%s", first, chance(2) ? ">" : "<=", below(40), chance(2) ? "&&common_pid>0" : "");
	else if (chance(4))
		printf(" stack=1");
	else if (first && chance(3))
		printf(" hist=keys=%s%s", first, chance(2) ? " record=0" : "");
	printf("\n");
}

/* The kernel optimises all kprobes or none: a script that has one kind has by ftrace what would be the other. */
static const struct kind *draw_kind(int allowed, int *drawn)
{
	const int one_of = INT3 | OPTIMISED;
	const struct kind *kind;

	do
		kind = &kinds[below(sizeof(kinds) / sizeof(kinds[0]))];
	while (!(allowed & kind->bit));
	*drawn |= kind->bit;
	if (kind->bit & one_of && (*drawn & one_of) == one_of) {
		*drawn &= ~kind->bit;
		kind = &kinds[0];
	}
	return kind;
}

static void draw_probe(const struct place *place, bool drained, int *drawn)
{
	const struct kind *kind = draw_kind(place->kinds, drawn);
	const char *first = place->field;
	unsigned int consumers = 1 + below(CONSUMERS);
	bool path = false, programs = chance(3);

	printf("probe %s %s%s", kind->provider, place->point, kind->suffix);
	if (kind->bit & (FTRACE | OPTIMISED | INT3 | UPROBE) && !chance(3)) {
		printf(" a=%%di%s", chance(3) ? " b=%si" : "");
		first = "a";
		path = place->path && chance(2);
		if (path)
			printf(" p=+0(%%si):ustring");
	} else if (kind->bit & (RETURN | URETURN) && chance(2)) {
		printf(" a=%%ax");
		first = "a";
	}
	printf("\n");
	while (consumers--)
		draw_consumer(kind, first, path, drained, programs);
}

static void draw_script(uint64_t seed, unsigned int number, unsigned int check)
{
	unsigned int work = below(sizeof(works) / sizeof(works[0])), count = 1 + below(PLACES);
	int drawn = 0;
	bool taken[sizeof(places) / sizeof(places[0])] = { false }, drained = chance(3);

	printf("run b%llu-%02u-%s work=%s rounds=%d check=%u", (unsigned long long)(seed % 1000000), number, works[work].name,
	       works[work].name, works[work].rounds, check);
	if (drained)
		printf(" drain=%u readers=%u", 300 + 100 * below(15), 1 + below(2));
	if (chance(3))
		printf(" spin=%u", 100 * below(30));
	printf("\n");
	for (unsigned int tries = 0; tries < 2000 && count; tries++) {
		unsigned int at = below(sizeof(places) / sizeof(places[0]));

		if (taken[at] || strcmp(places[at].work, works[work].name))
			continue;
		taken[at] = true;
		count--;
		draw_probe(&places[at], drained, &drawn);
	}
	if (chance(6))
		printf("probe sample %u\nuse%s\n", 20000 + 10000 * below(15), chance(2) ? " stack=1" : "");
	printf("go\n");
}

int main(int argc, char **argv)
{
	uint64_t seed = default_seed();
	unsigned int scripts = argc > 1 ? (unsigned int)argument("SCRIPTS", argv[1], 1, 1000) : 12;

	unsigned int check = argc > 2 ? (unsigned int)argument("CHECK", argv[2], 1, 3) : 1;

	if (argc > 3)
		die_usage("usage: probedraw [SCRIPTS [CHECK]]");
	state = seed ^ 0x647261776e34; /* "drawn4": other numbers than what else the seed decides, and than were seen */
	for (unsigned int number = 1; number <= scripts; number++)
		draw_script(seed, number, check);
	flush_or_die();
	return 0;
}
