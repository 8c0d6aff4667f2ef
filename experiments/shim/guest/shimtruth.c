// SPDX-License-Identifier: MIT
/*
 * shimtruth begin CPU KB | end CPU PREFIX: the kernel's own trace of the switches of one CPU, with the time-stamp counter
 * as its clock. `begin` makes a tracefs instance with a buffer of KB; `end` writes PREFIX.bin (24 bytes per switch: TSC,
 * 32-bit previous and next pid, CPU, flags: 1 events were lost before), PREFIX.json and PREFIX.comms.csv.
 */
#include "krepro.h"
#include "out.h"

#include <ctype.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define TRACEFS "/sys/kernel/tracing"
#define HERE TRACEFS "/instances/shim"

enum { PAGE = 4096, COMM = 16, NAMES = 512, LOST = 1 };
/* Of linux/ring_buffer.h and kernel/trace/ring_buffer.c. */
enum { TYPE_PADDING = 29, TYPE_EXTEND = 30, TYPE_STAMP = 31, MISSED_EVENTS = 1u << 31, COMMIT = (1u << 20) - 1 };

struct record {
	uint64_t tsc;
	int32_t prev, next;
	uint32_t cpu, flags;
};

struct field {
	unsigned int offset, size;
};

static struct field prev_pid, next_pid, prev_comm, next_comm;
static unsigned int event_id;
static struct {
	int32_t pid;
	char comm[COMM + 1];
} names[NAMES];
static int n_names;
static uint64_t n_events;

static void get_or_die(const char *path, char *text, size_t size)
{
	if (get_text(path, text, size) < 0)
		die_errno("%s", path);
}

static struct field field_of(const char *format, const char *name)
{
	struct field field = { 0, 0 };
	char wanted[64];
	const char *at;

	snprintf(wanted, sizeof(wanted), " %s", name);
	at = strstr(format, wanted);
	while (at && at[strlen(wanted)] != ';' && at[strlen(wanted)] != '[')
		at = strstr(at + 1, wanted);
	if (!at || !(at = strstr(at, "offset:")) || sscanf(at, "offset:%u;\tsize:%u;", &field.offset, &field.size) != 2) {
		errno = EINVAL;
		die_errno("%s", name);
	}
	return field;
}

static void begin(int cpu, const char *kb)
{
	char path[160], mask[32];

	if (access(TRACEFS "/instances", F_OK) && mount("nodev", TRACEFS, "tracefs", 0, NULL))
		die_errno(TRACEFS);
	if (mkdir(HERE, 0755) && errno != EEXIST)
		die_errno(HERE);
	put_text(HERE "/tracing_on", "0");
	put_text(HERE "/trace_clock", "x86-tsc");
	snprintf(mask, sizeof(mask), "%x", 1u << cpu);
	put_text(HERE "/tracing_cpumask", mask);
	snprintf(path, sizeof(path), HERE "/per_cpu/cpu%d/buffer_size_kb", cpu);
	put_text(path, kb);
	put_text(HERE "/events/sched/sched_switch/enable", "1");
	put_text(HERE "/tracing_on", "1");
}

static void name(int32_t pid, const char *comm)
{
	for (int i = 0; i < n_names; i++)
		if (names[i].pid == pid)
			return;
	if (n_names == NAMES)
		return;
	names[n_names].pid = pid;
	memcpy(names[n_names++].comm, comm, COMM);
}

static int32_t int_at(const unsigned char *event, struct field field)
{
	int32_t value;

	memcpy(&value, event + field.offset, sizeof(value));
	return value;
}

static uint32_t word_at(const unsigned char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static void event(const unsigned char *at, uint64_t tsc, int cpu, bool lost, FILE *out)
{
	struct record record;
	uint16_t id;

	memcpy(&id, at, sizeof(id));
	if (id != event_id)
		return;
	record = (struct record){ tsc, int_at(at, prev_pid), int_at(at, next_pid), (uint32_t)cpu, lost ? LOST : 0 };
	name(record.prev, (const char *)at + prev_comm.offset);
	name(record.next, (const char *)at + next_comm.offset);
	fwrite(&record, sizeof(record), 1, out);
	n_events++;
}

static void page(const unsigned char *page, int cpu, FILE *out)
{
	uint64_t tsc, commit;
	const unsigned char *at = page + 16, *end;
	bool lost;

	memcpy(&tsc, page, 8);
	memcpy(&commit, page + 8, 8);
	lost = commit & MISSED_EVENTS;
	end = at + (commit & COMMIT);
	while (at < end) {
		uint32_t head = word_at(at), type = head & 31, delta = head >> 5;

		at += 4;
		switch (type) {
		case TYPE_PADDING:
			if (!delta)
				return;
			tsc += delta;
			at += word_at(at);
			break;
		case TYPE_EXTEND:
			tsc += ((uint64_t)word_at(at) << 27) + delta;
			at += 4;
			break;
		case TYPE_STAMP: /* absolute, but for the topmost bits */
			tsc = (tsc & ~((1ull << 59) - 1)) | (((uint64_t)word_at(at) << 27) + delta);
			at += 4;
			break;
		default: {
			uint32_t length = type ? type * 4 : word_at(at);

			tsc += delta;
			event(at + (type ? 0 : 4), tsc, cpu, lost, out);
			lost = false;
			at += length;
		}
		}
	}
}

static uint64_t stat_of(const char *text, const char *what)
{
	const char *at = strstr(text, what);

	return at ? strtoull(at + strlen(what), NULL, 10) : 0;
}

static void end(int cpu, const char *prefix)
{
	static unsigned char buffer[PAGE];
	static char text[16384];
	char path[160];
	FILE *out;
	ssize_t n;
	int fd;

	put_text(HERE "/tracing_on", "0");
	get_or_die(HERE "/events/sched/sched_switch/format", text, sizeof(text));
	prev_pid = field_of(text, "prev_pid");
	next_pid = field_of(text, "next_pid");
	prev_comm = field_of(text, "prev_comm");
	next_comm = field_of(text, "next_comm");
	if (!strstr(text, "ID: "))
		die_errno("event format");
	event_id = (unsigned int)strtoul(strstr(text, "ID: ") + 4, NULL, 10);

	snprintf(path, sizeof(path), HERE "/per_cpu/cpu%d/trace_pipe_raw", cpu);
	fd = open(path, O_RDONLY | O_NONBLOCK);
	if (fd < 0)
		die_errno("%s", path);
	out = open_out(prefix, "bin");
	while ((n = read(fd, buffer, sizeof(buffer))) > 0) {
		memset(buffer + n, 0, sizeof(buffer) - (size_t)n);
		page(buffer, cpu, out);
	}
	if (n < 0 && errno != EAGAIN)
		die_errno("%s", path);
	close(fd);
	if (ferror(out) || fclose(out))
		die_errno("%s", prefix);

	snprintf(path, sizeof(path), HERE "/per_cpu/cpu%d/stats", cpu);
	get_or_die(path, text, sizeof(text));
	out = open_out(prefix, "json");
	fprintf(out, "{\"clock\": \"x86-tsc\", \"cpu\": %d, \"events\": %llu, \"overrun\": %llu, \"dropped\": %llu}\n", cpu,
		(unsigned long long)n_events, (unsigned long long)stat_of(text, "\noverrun: "),
		(unsigned long long)stat_of(text, "dropped events: "));
	fclose(out);
	out = open_out(prefix, "comms.csv");
	fputs("pid,comm\n", out);
	for (int i = 0; i < n_names; i++) {
		fprintf(out, "%d,\"", names[i].pid);
		for (const char *c = names[i].comm; *c; c++)
			fprintf(out, *c == '"' ? "\"\"" : "%c", *c);
		fputs("\"\n", out);
	}
	fclose(out);
	put_text(HERE "/events/sched/sched_switch/enable", "0");
	if (rmdir(HERE))
		die_errno(HERE);
}

int main(int argc, char **argv)
{
	bool begins = argc == 4 && !strcmp(argv[1], "begin"), ends = argc == 4 && !strcmp(argv[1], "end");
	int cpu = argc == 4 ? atoi(argv[2]) : -1;

	if ((!begins && !ends) || !isdigit((unsigned char)*argv[2]) || cpu > 30 ||
	    (begins && !isdigit((unsigned char)*argv[3])))
		die_usage("usage: shimtruth begin CPU KB | end CPU PREFIX");
	if (begins)
		begin(cpu, argv[3]);
	else
		end(cpu, argv[3]);
	return 0;
}
