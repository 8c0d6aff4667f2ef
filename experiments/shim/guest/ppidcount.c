// SPDX-License-Identifier: MIT
/*
 * ppidcount CPU: what the counters that /dev/ppid_map publishes are worth, as JSON. On machines of one CPU too: the
 * target and who looks take turns there, and what is published at the switch between them is the target's.
 *
 * The same known loop of the target is counted by what the module publishes, by an event of the CPU that is read by a
 * system call, and by an event of the observer's own thread, which counts another thread and is refused. Then the CPU's
 * count over a time in which the target computes, and over one in which it sleeps. At last with more events than the
 * CPU has counters: then the module's event has to share, and is refused.
 */
#include "krepro.h"
#include "known.h"
#include "ppid.h"

#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

enum { TURNS = 10000000, KNOWN = 2 * TURNS, TRIES = 5, CROWD = 8, INSTRUCTIONS = 0 };
/* What each counter has to be within: one part in a thousand of the loop. */
enum { PARTS = 1000 };
static const uint64_t half_second_ns = 500000000;

/* What the target does each time that it is woken. */
enum task { TASK_END, TASK_KNOWN, TASK_BUSY };

static int go[2], done[2], cpu;
static const struct ppid_line *line;

static long event_of(pid_t pid, int on_cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};

	return TEMP_FAILURE_RETRY(syscall(SYS_perf_event_open, &attr, pid, on_cpu, -1, PERF_FLAG_FD_CLOEXEC));
}

struct value {
	uint64_t count, enabled, running;
};

static struct value read_event(long fd)
{
	struct value value = { 0, 0, 0 };

	if (fd >= 0 && read((int)fd, &value, sizeof(value)) != sizeof(value))
		die_errno("an event");
	return value;
}

static void put(int fd, enum task task)
{
	char byte = (char)task;

	if (write(fd, &byte, 1) != 1)
		die_errno("a pipe");
}

static enum task get(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		die_errno("a pipe");
	return (enum task)byte;
}

static void *target(void *unused)
{
	enum task task;

	if (!pin(cpu))
		die_errno("CPU %d", cpu);
	put(done[1], TASK_END);
	while ((task = get(go[0])) != TASK_END) {
		uint64_t until = now_ns() + half_second_ns;

		if (task == TASK_KNOWN)
			known_loop(TURNS);
		while (task == TASK_BUSY && now_ns() < until)
			known_loop(1000);
		put(done[1], task);
	}
	return unused;
}

static void first_of_all(void)
{
	const struct sched_param how = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO, &how))
		die_errno("SCHED_FIFO");
}

/* One try: the target's loop, by all three. */
struct counted {
	uint64_t slice, by_call, own;
	struct ppid_counts then;
	bool alone; /* nobody else ran in between */
};

static struct counted count_known(long of_cpu, long of_thread)
{
	struct ppid_counts before, after;
	struct value call, own;

	sleep_ns(1000000); /* the target is asleep, and all that waited has run */
	before = ppid_counts(line);
	call = read_event(of_cpu);
	own = read_event(of_thread);
	put(go[1], TASK_KNOWN);
	get(done[0]);
	after = ppid_counts(line);
	return (struct counted){
		.slice = after.slice[INSTRUCTIONS],
		.by_call = read_event(of_cpu).count - call.count,
		.own = read_event(of_thread).count - own.count,
		.then = after,
		.alone = after.begun == before.begun + 2,
	};
}

static void print_check(const char *what, const char *source, uint64_t counted, const char *reason)
{
	static bool more;
	const uint64_t off = counted > KNOWN ? counted - KNOWN : KNOWN - counted;
	char text[120];

	if (!reason && off * PARTS > KNOWN) {
		snprintf(text, sizeof(text), "known work of %d instructions was counted as %llu", KNOWN,
			 (unsigned long long)counted);
		reason = text;
	}
	printf("%s\n  {\"what\": \"%s\", \"source\": \"%s\", \"expected\": %d, \"counted\": %llu, \"reason\": ", more ? "," : "",
	       what, source, KNOWN, (unsigned long long)counted);
	printf(reason ? "\"%s\"}" : "null}", reason);
	more = true;
}

/* The least of some: interrupts only add. A try in which somebody else ran does not count. */
static struct counted least_known(long of_cpu, long of_thread)
{
	struct counted best = { .slice = UINT64_MAX };

	for (int i = 0; i < TRIES; i++) {
		struct counted one = count_known(of_cpu, of_thread);

		if (one.alone && one.slice < best.slice)
			best = one;
	}
	return best;
}

/* Instructions of the CPU between two switches, around half a second of the target's. */
static uint64_t of_half_a_second(bool busy)
{
	uint64_t before;

	sleep_ns(1000000);
	before = ppid_counts(line).total[INSTRUCTIONS];
	if (busy) {
		put(go[1], TASK_BUSY);
		get(done[0]);
	} else {
		sleep_ns(half_second_ns);
	}
	return ppid_counts(line).total[INSTRUCTIONS] - before;
}

/* What the observer's own event says of an idle target while the observer looks: itself. */
static uint64_t own_of_idle_target(long of_thread)
{
	uint64_t before = read_event(of_thread).count, until = now_ns() + half_second_ns;

	while (now_ns() < until)
		known_loop(1000);
	return read_event(of_thread).count - before;
}

int main(int argc, char **argv)
{
	long of_cpu, of_thread, crowd[CROWD];
	struct counted counted;
	pthread_t thread;
	const char *refusal;

	if (argc != 2)
		die_usage("usage: ppidcount CPU");
	cpu = (int)argument("CPU", argv[1], 0, 4095);
	if (!pin(cpu))
		die_errno("CPU %d", cpu);
	line = ppid_map();
	if (!line)
		die_errno(PPID_DEVICE);
	line += cpu;
	if (pipe(go) || pipe(done))
		die_errno("a pipe");
	first_of_all(); /* the target's thread inherits it */
	errno = pthread_create(&thread, NULL, target, NULL);
	if (errno)
		die_errno("no thread");
	get(done[0]);
	of_cpu = event_of(-1, cpu);
	of_thread = event_of(0, -1);

	printf("{\"cpu\": %d, \"checks\": [", cpu);
	counted = least_known(of_cpu, of_thread);
	refusal = counted.slice == UINT64_MAX ? "other threads ran in between, five times" :
						ppid_refusal(&counted.then, INSTRUCTIONS);
	print_check("known loop", "slot", refusal ? 0 : counted.slice, refusal);
	print_check("known loop", "call", counted.by_call, of_cpu < 0 ? "the event cannot be opened" : NULL);
	print_check("known loop", "observer", counted.own, of_thread < 0 ? "the event cannot be opened" : NULL);
	printf("],\n \"busy\": %llu, ", (unsigned long long)of_half_a_second(true));
	printf("\"idle\": %llu, ", (unsigned long long)of_half_a_second(false));
	printf("\"observer_of_idle\": %llu,\n", (unsigned long long)own_of_idle_target(of_thread));

	for (int i = 0; i < CROWD; i++)
		crowd[i] = event_of(-1, cpu);
	sleep_ns(half_second_ns);
	counted = count_known(of_cpu, of_thread);
	refusal = ppid_refusal(&counted.then, INSTRUCTIONS);
	printf(" \"crowded\": {\"expected\": %d, \"counted\": %llu, \"reason\": ", KNOWN, (unsigned long long)counted.slice);
	printf(refusal ? "\"%s\", \"events\": [" : "null, \"events\": [", refusal);
	for (int i = 0; i < CROWD; i++) {
		struct value value = read_event(crowd[i]);

		printf("%s\n  {\"count\": %llu, \"enabled\": %llu, \"running\": %llu}", i ? "," : "", (unsigned long long)value.count,
		       (unsigned long long)value.enabled, (unsigned long long)value.running);
	}
	printf("]}}\n");
	put(go[1], TASK_END);
	pthread_join(thread, NULL);
	flush_or_die();
	return 0;
}
