// SPDX-License-Identifier: MIT
/*
 * collect-profile begin|end DIR: the profile buffer of one workload, with the
 * /proc/interrupts that belong to it.
 *
 * Counts are compared exactly, so what is switched on and off here must be
 * bracketed: between two readings of /proc/interrupts that agree, no interrupt
 * came, and whatever was done between them might have been done in one moment.
 *
 *   begin:  tick, A, reset the buffer, B, switch sampling on, C
 *   end:    tick, A, switch sampling off, B, copy the buffer, C
 *
 * Handler entries are counted while sampling is on, so they are exact for each
 * line on which B = C at the begin and A = B at the end. Ticks are sampled from
 * boot on and cannot be switched, so they are exact if the timer's lines have
 * A = C in both places. "tick" waits until a timer interrupt has just come: the
 * next is then a whole period away. The begin is repeated until it is exact or
 * the attempts are used up; the end cannot be, since an interrupt on the wrong
 * side of the switch is lost. What remains inexact is written down line by line
 * as slack: that many interrupts may or may not be in the buffer.
 *
 * DIR/handlers is /proc/irq_handlers of this folder's module: the functions behind the lines of /proc/interrupts.
 *
 * The oracle's window, which has the exact counts of what is sampled, begins after C and ends before switching off.
 *
 * DIR/interrupts.before is C of the begin, interrupts.after A of the end: their
 * difference was certainly sampled. DIR/bracket has the rest as key=value.
 *
 * KREPRO_IRQ_SAMPLING says what to sample at interrupts: off, entry (handler and
 * interrupted address: the paper's fix) or handler (the first alone). With nmi
 * the samples are those of NMIs that come from outside, and ticks take none.
 */
#include "krepro.h"
#include "krepro-roi.h"

#include <ctype.h>
#include <limits.h>
#include <sys/stat.h>

/* For the oracle: what the buffer covers. It is begun in one process and ended in another. */
#define WINDOW_BEGIN() ROI(3, 0)
#define WINDOW_END()   ROI(3, 1)

#define INTERRUPTS "/proc/interrupts"
#define PROFILE	   "/proc/profile"
#define HOTSPOT	   "/proc/sys/kernel/irq_hotspot"
#define STATS	   "/proc/sys/kernel/irq_hotspot_stats"
#define NMI	   "/proc/sys/kernel/nmi_profile"
#define NMI_STATS  "/proc/sys/kernel/nmi_profile_stats"
#define HANDLERS   "/proc/irq_handlers"

enum {
	MAX_TEXT = 128 * 1024,
	MAX_LINES = 512,
	BEGIN_ATTEMPTS = 20,
	SETTLE_ATTEMPTS = 20,
};

struct line {
	char irq[8];
	bool timer;
	uint64_t count; /* over all CPUs */
};

struct shot {
	uint64_t at_ns;
	uint64_t ticks; /* of all timer lines and CPUs */
	size_t length;
	size_t lines;
	struct line line[MAX_LINES];
	char text[MAX_TEXT];
};

/* Static, so that nothing is allocated or faulted in while the bracket is open. */
static struct shot shot_a, shot_b, shot_c;
static int interrupts_fd = -1, profile_fd = -1, hotspot_fd = -1, stats_fd = -1, nmi_fd = -1, nmi_stats_fd = -1;

static void take(struct shot *shot)
{
	shot->length = read_all(interrupts_fd, INTERRUPTS, shot->text, sizeof(shot->text) - 1);
	if (shot->length == sizeof(shot->text) - 1)
		die("%s: longer than %d bytes", INTERRUPTS, MAX_TEXT - 1);
	shot->text[shot->length] = '\0';
	shot->at_ns = now_ns();
}

/* Lines that are counted: numbered ones, and the local APIC's timer. */
static void parse(struct shot *shot)
{
	const char *at = shot->text;
	size_t cpus = 0;

	for (const char *end = strchr(at, '\n'); at && end && at < end; at++)
		cpus += !strncmp(at, "CPU", 3);
	if (!cpus)
		die("%s: no row of CPUs", INTERRUPTS);

	shot->lines = 0;
	shot->ticks = 0;
	while ((at = strchr(at, '\n')) && *++at) {
		struct line *line = &shot->line[shot->lines];
		const char *colon = strchr(at, ':'), *end = strchr(at, '\n');
		size_t width;
		char *next;

		if (!colon || (end && colon > end))
			continue;
		at += strspn(at, " ");
		width = (size_t)(colon - at);
		if (width >= sizeof(line->irq) || (!isdigit((unsigned char)*at) && strncmp(at, "LOC:", 4)))
			continue;
		if (shot->lines == MAX_LINES)
			die("%s: more than %d lines", INTERRUPTS, MAX_LINES);
		memcpy(line->irq, at, width);
		line->irq[width] = '\0';
		line->count = 0;
		at = colon + 1;
		for (size_t cpu = 0; cpu < cpus; cpu++, at = next) {
			line->count += strtoull(at, &next, 10);
			if (next == at)
				die("%s: line %s has too few numbers", INTERRUPTS, line->irq);
		}
		width = strcspn(at, "\n");
		line->timer = !strcmp(line->irq, "LOC") ||
			      (width >= 6 && !strncmp(at + width - 6, " timer", 6));
		if (line->timer)
			shot->ticks += line->count;
		shot->lines++;
	}
	if (!shot->ticks)
		die("%s: no timer line has counted yet", INTERRUPTS);
}

/*
 * Interrupts from `from` to `to` as "irq:count ...": those of the timer if
 * `timer`, else of the devices. A line that is new counts from 0. Returns how many.
 */
static uint64_t slack(const struct shot *from, const struct shot *to, bool timer, char *list, size_t size)
{
	uint64_t sum = 0;
	size_t used = 0;

	list[0] = '\0';
	for (size_t i = 0; i < to->lines; i++) {
		const struct line *line = &to->line[i];
		uint64_t before = 0;

		if (line->timer != timer)
			continue;
		for (size_t j = 0; j < from->lines; j++)
			if (!strcmp(from->line[j].irq, line->irq))
				before = from->line[j].count;
		if (line->count == before)
			continue;
		sum += line->count - before;
		used += (size_t)snprintf(list + used, size - used, "%s%s:%llu", used ? " " : "", line->irq,
					 (unsigned long long)(line->count - before));
		if (used >= size)
			die("%s: too many lines changed at once", INTERRUPTS);
	}
	return sum;
}

/* A reading from just after a timer interrupt; false if none came within a second. */
static bool just_after_tick(struct shot *shot)
{
	uint64_t deadline = now_ns() + NSEC_PER_SEC, before;

	take(shot);
	parse(shot);
	before = shot->ticks;
	do {
		take(shot);
		parse(shot);
		if (shot->ticks != before)
			return true;
	} while (shot->at_ns < deadline);
	return false;
}

static void reset_profile(void)
{
	/* One byte: four would be taken for a timer multiplier on SMP. */
	ssize_t n;

	do
		n = pwrite(profile_fd, "\n", 1, 0);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		die_errno("resetting %s", PROFILE);
}

/* Values of irq_hotspot, and one that stands for nmi_profile instead. */
enum { MODE_NMI = 3 };

static int sampling_mode(void)
{
	static const char *const names[] = { "off", "entry", "handler", [MODE_NMI] = "nmi" };
	const char *wanted = getenv("KREPRO_IRQ_SAMPLING");

	if (!wanted)
		die_usage("KREPRO_IRQ_SAMPLING is not set: the arm needs the parameter irq_sampling");
	for (int mode = 0; mode <= MODE_NMI; mode++)
		if (!strcmp(wanted, names[mode]))
			return mode;
	die_usage("KREPRO_IRQ_SAMPLING is %s, not off, entry, handler or nmi", wanted);
}

static void set_switch(int fd, const char *path, int value)
{
	if (fd >= 0)
		put_number(fd, path, (uint64_t)value);
	else if (value)
		die("%s is missing: the kernel lacks the patches irq-hotspot", path);
}

static void set_mode(int mode)
{
	set_switch(nmi_fd, NMI, mode == MODE_NMI);
	set_switch(hotspot_fd, HOTSPOT, mode == MODE_NMI ? 0 : mode);
}

static void open_proc(void)
{
	interrupts_fd = open_or_die(INTERRUPTS, O_RDONLY);
	profile_fd = open(PROFILE, O_RDWR | O_CLOEXEC);
	if (profile_fd < 0 && errno == ENOENT)
		die("%s is missing: boot with profile=N and CONFIG_PROFILING", PROFILE);
	if (profile_fd < 0)
		die_errno("%s", PROFILE);
	/* Absent on an unpatched kernel, which can still sample ticks. */
	hotspot_fd = open(HOTSPOT, O_RDWR | O_CLOEXEC);
	stats_fd = open(STATS, O_RDONLY | O_CLOEXEC);
	nmi_fd = open(NMI, O_RDWR | O_CLOEXEC);
	nmi_stats_fd = open(NMI_STATS, O_RDONLY | O_CLOEXEC);
	if ((hotspot_fd < 0 || stats_fd < 0 || nmi_fd < 0 || nmi_stats_fd < 0) && errno != ENOENT)
		die_errno("%s", HOTSPOT);
}

static void save(const char *directory, const char *name, const void *data, size_t size, int flags)
{
	char path[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
		die("%s: path too long", directory);
	fd = open_or_die(path, O_WRONLY | O_CREAT | flags);
	write_or_die(fd, path, data, size);
	if (close(fd))
		die_errno("closing %s", path);
}

/* The kernel's own four counters since boot, or nothing. */
static void stats_text(int fd, const char *path, char *text, size_t size)
{
	size_t length = fd < 0 ? 0 : read_all(fd, path, text, size - 1);

	text[length] = '\0';
	for (char *at = text; *at; at++)
		if (*at == '\t')
			*at = ' ';
		else if (*at == '\n')
			*at = '\0';
}

static char tick_list[1024], device_list[4096], early_list[1024], stats[256], nmi_stats[256], report[8192];

static void save_handlers(const char *directory)
{
	static char text[64 * 1024];
	int fd = open_or_die(HANDLERS, O_RDONLY);
	size_t size = read_all(fd, HANDLERS, text, sizeof(text));

	if (size == sizeof(text))
		die("%s: longer than %zu bytes", HANDLERS, sizeof(text));
	save(directory, "handlers", text, size, O_TRUNC);
	close(fd);
}

static void begin(const char *directory)
{
	uint64_t ticks = 0, devices = 0, entries = 0;
	int mode = sampling_mode(), attempt = 0;
	bool ticking;
	int length;

	save_handlers(directory);
	set_mode(0);
	stats_text(stats_fd, STATS, stats, sizeof(stats));
	stats_text(nmi_stats_fd, NMI_STATS, nmi_stats, sizeof(nmi_stats));
	for (;; attempt++) {
		ticking = just_after_tick(&shot_a);
		reset_profile();
		take(&shot_b);
		if (mode)
			set_mode(mode);
		take(&shot_c);

		parse(&shot_b);
		parse(&shot_c);
		ticks = slack(&shot_a, &shot_c, true, tick_list, sizeof(tick_list));
		devices = slack(&shot_b, &shot_c, false, device_list, sizeof(device_list));
		/* The timer's handler too is entered only while sampling is on. */
		entries = slack(&shot_b, &shot_c, true, early_list, sizeof(early_list));
		if ((!ticks && (!devices || !mode) && ticking) || attempt == BEGIN_ATTEMPTS - 1)
			break;
		if (mode)
			set_mode(0);
	}
	/* No interrupt since the switch, and the next tick is a whole period away: the oracle counts what is sampled. */
	WINDOW_BEGIN();
	length = snprintf(report, sizeof(report),
			  "irq_hotspot=%d\n"
			  "begin_exact=%d\n"
			  "begin_retries=%d\n"
			  "begin_after_tick=%d\n"
			  "begin_ns=%llu\n"
			  "begin_window_ns=%llu\n"
			  "begin_tick_slack=%llu\n"
			  "begin_entry_slack=%s%s%s\n"
			  "begin_stats=%s\n"
			  "begin_nmi_stats=%s\n",
			  hotspot_fd < 0 ? -1 : (int)get_number(hotspot_fd, HOTSPOT),
			  !ticks && (!mode || (!devices && !entries)), attempt, ticking,
			  (unsigned long long)shot_c.at_ns, (unsigned long long)(shot_c.at_ns - shot_a.at_ns),
			  (unsigned long long)ticks, mode ? early_list : "", mode && entries && devices ? " " : "",
			  mode ? device_list : "", stats, nmi_stats);
	if (length >= (int)sizeof(report))
		die("bracket report too long");
	save(directory, "interrupts.before", shot_c.text, shot_c.length, O_TRUNC);
	save(directory, "bracket", report, (size_t)length, O_TRUNC);
}

static void end(const char *directory)
{
	uint64_t ticks, devices, entries;
	int mode = sampling_mode(), settle = 0;
	struct stat status;
	size_t size, got;
	char *buffer;
	bool ticking;
	int length;

	if (fstat(profile_fd, &status) || status.st_size <= 0)
		die("%s: its size is unknown", PROFILE);
	size = (size_t)status.st_size;
	buffer = malloc(size + 1);
	if (!buffer)
		die_errno("%zu bytes for the profile buffer", size);
	memset(buffer, 0xff, size + 1); /* fault the pages in now */

	/* Wait for a whole period without a device interrupt, for a while. */
	ticking = just_after_tick(&shot_b);
	do {
		shot_a = shot_b;
		ticking = just_after_tick(&shot_b) && ticking;
	} while (slack(&shot_a, &shot_b, false, device_list, sizeof(device_list)) && ++settle < SETTLE_ATTEMPTS);
	ticking = just_after_tick(&shot_a) && ticking;

	WINDOW_END();
	if (mode)
		set_mode(0);
	take(&shot_b);
	got = read_all(profile_fd, PROFILE, buffer, size + 1);
	take(&shot_c);

	if (got != size)
		die("%s: has %zu bytes, not %zu", PROFILE, got, size);
	parse(&shot_b);
	parse(&shot_c);
	ticks = slack(&shot_a, &shot_c, true, tick_list, sizeof(tick_list));
	devices = slack(&shot_a, &shot_b, false, device_list, sizeof(device_list));
	entries = slack(&shot_a, &shot_b, true, early_list, sizeof(early_list));
	stats_text(stats_fd, STATS, stats, sizeof(stats));
	stats_text(nmi_stats_fd, NMI_STATS, nmi_stats, sizeof(nmi_stats));
	length = snprintf(report, sizeof(report),
			  "end_exact=%d\n"
			  "end_retries=%d\n"
			  "end_after_tick=%d\n"
			  "end_ns=%llu\n"
			  "end_window_ns=%llu\n"
			  "end_tick_slack=%llu\n"
			  "end_entry_slack=%s%s%s\n"
			  "end_stats=%s\n"
			  "end_nmi_stats=%s\n",
			  !ticks && (!mode || (!devices && !entries)), settle, ticking,
			  (unsigned long long)shot_a.at_ns, (unsigned long long)(shot_c.at_ns - shot_a.at_ns),
			  (unsigned long long)ticks, mode ? early_list : "", mode && entries && devices ? " " : "",
			  mode ? device_list : "", stats, nmi_stats);
	if (length >= (int)sizeof(report))
		die("bracket report too long");
	save(directory, "interrupts.after", shot_a.text, shot_a.length, O_TRUNC);
	save(directory, "profile", buffer, size, O_TRUNC);
	save(directory, "bracket", report, (size_t)length, O_APPEND);
	free(buffer);
}

int main(int argc, char **argv)
{
	if (argc != 3 || (strcmp(argv[1], "begin") && strcmp(argv[1], "end")))
		die_usage("usage: %s begin|end DIR", program_invocation_short_name);
	open_proc();
	/* Fault the readings' pages in before anything is timed. */
	memset(&shot_a, 1, sizeof(shot_a));
	memset(&shot_b, 1, sizeof(shot_b));
	memset(&shot_c, 1, sizeof(shot_c));
	if (!strcmp(argv[1], "begin"))
		begin(argv[2]);
	else
		end(argv[2]);
	return 0;
}
