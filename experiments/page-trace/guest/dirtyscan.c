// SPDX-License-Identifier: MIT
/*
 * dirtyscan: run a command and look again and again which of its pages have been written to, by the kernel's soft-dirty
 * bits (Documentation/admin-guide/mm/soft-dirty.rst), as CRIU does.
 *
 *   dirtyscan [-i US] [-o FILE] STATS COMMAND...
 *
 *   -i US    between one look's end and the next one (1000)
 *   -o FILE  for each look a struct look, then the numbers of its pages (dirty.bin)
 *
 * On a machine of one CPU nothing is lost between the look and the clearing of the bits: this process has a real-time
 * priority, so that the command does not run in between. STATS is one line of JSON: bytes of the file, and records in
 * it, which are pages. The command's own process alone. The exit status is the command's.
 */
#include "krepro.h"

#include <poll.h>
#include <sched.h>
#include <sys/pidfd.h>

#define USAGE	"usage: dirtyscan [-i US] [-o FILE] STATS COMMAND..."

enum { PAGES = 4096 };

/* A mapping that is new counts as written to as a whole, also where it has no page. */
static const uint64_t wanted = 1ull << 55 | 1ull << 63;

struct look {
	uint64_t time_ns, pages;
};

struct scan {
	int output;
	const char *path, *pagemap, *maps, *clear;
	uint64_t *found;
	size_t count, room;
	uint64_t bytes, looks, pages;
	uint64_t entry[PAGES];
};

static void found(struct scan *scan, uint64_t page)
{
	if (scan->count == scan->room) {
		scan->room = scan->room ? 2 * scan->room : PAGES;
		scan->found = realloc(scan->found, scan->room * sizeof(*scan->found));
		if (!scan->found)
			die_errno("a list of %zu pages", scan->room);
	}
	scan->found[scan->count++] = page;
}

static void look_at(struct scan *scan, int pagemap, uint64_t page, uint64_t end)
{
	while (page < end) {
		uint64_t want = end - page < PAGES ? end - page : PAGES;
		ssize_t n = pread(pagemap, scan->entry, want * 8, page * 8);

		if (n <= 0)
			return; /* beyond user space: vsyscall */
		for (size_t i = 0; i < (size_t)n / 8; i++)
			if ((scan->entry[i] & wanted) == wanted)
				found(scan, page + i);
		page += n / 8;
	}
}

/* Which pages, and the bits cleared. Both files are of the memory that the process has when they are opened. */
static void find(struct scan *scan)
{
	int pagemap = open(scan->pagemap, O_RDONLY | O_CLOEXEC);
	FILE *maps = fopen(scan->maps, "re");
	unsigned long begin, end;
	char line[512];

	scan->count = 0;
	while (maps && pagemap >= 0 && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx", &begin, &end) == 2)
			look_at(scan, pagemap, begin >> 12, end >> 12);
	try_put_text(scan->clear, "4", 0);
	if (maps)
		fclose(maps);
	if (pagemap >= 0)
		close(pagemap);
}

static void look(struct scan *scan)
{
	struct look head;

	find(scan);
	if (!scan->count)
		return;
	head = (struct look){ .time_ns = now_ns(), .pages = scan->count };
	write_or_die(scan->output, scan->path, &head, sizeof(head));
	write_or_die(scan->output, scan->path, scan->found, scan->count * sizeof(*scan->found));
	scan->looks++;
	scan->pages += scan->count;
	scan->bytes += sizeof(head) + scan->count * sizeof(*scan->found);
}

int main(int argc, char **argv)
{
	char pagemap[64], maps[64], clear[64];
	static struct scan scan = { .path = "dirty.bin" };
	struct sched_param priority = { .sched_priority = 1 };
	uint64_t interval_us = 1000, begin_ns, elapsed_ns;
	struct held_command command;
	int option, stats, status, ready;
	struct timespec interval;
	struct pollfd ended;
	struct rusage usage;

	exit_usage = EXIT_TOOL; /* 2 may be the command's */
	opterr = 0;
	while ((option = getopt(argc, argv, "+i:o:")) != -1) {
		switch (option) {
		case 'i': interval_us = argument("-i", optarg, 1, UINT32_MAX); break;
		case 'o': scan.path = optarg; break;
		default: die_usage(USAGE);
		}
	}
	if (argc - optind < 2)
		die_usage(USAGE);
	stats = create_or_die(argv[optind]);
	scan.output = create_or_die(scan.path);

	command = hold_command(argv + optind + 1, NULL, SIGKILL);
	ended = (struct pollfd){ .fd = pidfd_open(command.pid, 0), .events = POLLIN };
	if (ended.fd < 0)
		die_errno("pidfd_open");
	snprintf(pagemap, sizeof(pagemap), "/proc/%d/pagemap", command.pid);
	snprintf(maps, sizeof(maps), "/proc/%d/maps", command.pid);
	snprintf(clear, sizeof(clear), "/proc/%d/clear_refs", command.pid);
	scan.pagemap = pagemap;
	scan.maps = maps;
	scan.clear = clear;
	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		die_errno("a real-time priority");
	interval = (struct timespec){ .tv_sec = interval_us / 1000000, .tv_nsec = interval_us % 1000000 * 1000 };
	begin_ns = now_ns();
	release_command(&command);
	while (!(ready = ppoll(&ended, 1, &interval, NULL)))
		look(&scan);
	if (ready < 0)
		die_errno("ppoll");
	status = shell_status(wait_for_command(command.pid, &usage));
	elapsed_ns = now_ns() - begin_ns;

	if (dprintf(stats, "{\"elapsed_ns\": %llu, \"user_ns\": %llu, \"system_ns\": %llu, \"exit_status\": %d, "
			   "\"bytes\": %llu, \"records\": %llu, \"looks\": %llu}\n",
		    (unsigned long long)elapsed_ns, (unsigned long long)timeval_ns(usage.ru_utime),
		    (unsigned long long)timeval_ns(usage.ru_stime), status, (unsigned long long)scan.bytes,
		    (unsigned long long)scan.pages, (unsigned long long)scan.looks) < 0)
		die_errno("%s", argv[optind]);
	return status;
}
