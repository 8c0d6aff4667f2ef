// SPDX-License-Identifier: MIT
/*
 * lackey: run a command under valgrind's address tracer of that name and count what it writes.
 *
 *   lackey [-k] [-o FILE] STATS COMMAND...
 *
 *   -k       count lines by kind, and what its data accesses would take in binary and packed; takes time, so not where
 *            time is measured
 *   -o FILE  keep the trace
 *
 * The trace comes through a pipe, as it is too large to be kept. STATS is one
 * line of JSON; bytes that are not known are null. The exit status is the
 * command's. Of Debian's valgrind the tool itself is enough, without its
 * start script and launcher: no libc, no debug files.
 */
#include "krepro.h"

#define LIBRARY	"/usr/libexec/valgrind"
#define TOOL	LIBRARY "/lackey-amd64-linux"
#define USAGE	"usage: lackey [-k] [-o FILE] STATS COMMAND..."

enum { PIPE_BYTES = 1 << 20 };

/*
 * Lines of code begin with I, of data with a blank, as " S 1ffe8,4" has it; ==PID== lines are text. In binary, an access
 * is a word: address, size and kind. Packed, it is the difference to the address before it in LEB128, with a bit that
 * tells whether a byte of size and kind follows: where they are not those of the access before.
 */
struct kinds {
	uint64_t code_lines, code_bytes, data_lines, data_bytes, packed_bytes;
	uint64_t address;	/* of the access before */
	char kind;		/* of the line that goes on in the next buffer, or 0 */
	char what[8];		/* kind and size of the access before */
	char line[40];		/* of data, as far as it has come */
	size_t length;
};

static void pack(struct kinds *kinds)
{
	uint64_t address, difference, rest;
	char *size;

	kinds->line[kinds->length] = '\0';
	address = strtoull(kinds->line + 2, &size, 16);
	difference = address - kinds->address;
	rest = (difference << 1 ^ -(difference >> 63)) << 1;
	size[0] = kinds->line[1];	/* in place of the comma */
	if (strncmp(kinds->what, size, sizeof(kinds->what) - 1)) {
		snprintf(kinds->what, sizeof(kinds->what), "%.*s", (int)sizeof(kinds->what) - 1, size);
		kinds->packed_bytes++;
	}
	do {
		kinds->packed_bytes++;
		rest >>= 7;
	} while (rest);
	kinds->address = address;
	kinds->length = 0;
}

static void data(struct kinds *kinds, const char *at, size_t size, bool ends)
{
	size_t room = sizeof(kinds->line) - 1 - kinds->length, taken = size < room ? size : room;

	kinds->data_bytes += size;
	memcpy(kinds->line + kinds->length, at, taken);
	kinds->length += taken;
	if (!ends)
		return;
	kinds->data_lines++;
	pack(kinds);
}

static void count(struct kinds *kinds, const char *at, size_t size)
{
	const char *end = at + size;

	while (at < end) {
		const char *newline = memchr(at, '\n', end - at), *next = newline ? newline + 1 : end;
		char kind = kinds->kind ? kinds->kind : *at;

		if (kind == 'I') {
			kinds->code_lines += newline != NULL;
			kinds->code_bytes += next - at;
		} else if (kind == ' ') {
			data(kinds, at, next - at, newline != NULL);
		}
		kinds->kind = newline ? 0 : kind;
		at = next;
	}
}

static void __attribute__((noreturn)) run_under_lackey(char **command, int count, int log)
{
	char **arguments = calloc(count + 6, sizeof(*arguments)), log_fd[32];

	if (!arguments)
		die_errno("arguments");
	snprintf(log_fd, sizeof(log_fd), "--log-fd=%d", log);
	arguments[0] = TOOL;
	arguments[1] = "--tool=lackey";
	arguments[2] = "--trace-mem=yes";
	/* As without pagetrace -f: the command's own process alone. */
	arguments[3] = "--child-silent-after-fork=yes";
	arguments[4] = log_fd;
	memcpy(arguments + 5, command, count * sizeof(*arguments));
	/* What the launcher "valgrind" does for the tool. */
	setenv("VALGRIND_LIB", LIBRARY, 1);
	setenv("VALGRIND_LAUNCHER", TOOL, 1);
	become(arguments);
}

int main(int argc, char **argv)
{
	static char buffer[PIPE_BYTES];
	uint64_t begin_ns, elapsed_ns, bytes = 0;
	int option, ends[2], file = -1, stats, status;
	struct kinds kinds = { 0 };
	const char *output = NULL;
	bool by_kind = false;
	struct rusage usage;
	ssize_t n;
	pid_t pid;

	exit_usage = EXIT_TOOL; /* 2 may be the command's */
	opterr = 0;
	while ((option = getopt(argc, argv, "+ko:")) != -1) {
		switch (option) {
		case 'k': by_kind = true; break;
		case 'o': output = optarg; break;
		default: die_usage(USAGE);
		}
	}
	if (argc - optind < 2)
		die_usage(USAGE);
	if (access(TOOL, X_OK))
		die("%s: %s: has the image Debian's valgrind?", TOOL, strerror(errno));
	stats = create_or_die(argv[optind]);
	if (output)
		file = create_or_die(output);

	if (pipe2(ends, O_CLOEXEC))
		die_errno("pipe");
	/* Fewer switches; a kernel that refuses keeps its 64 KiB. */
	fcntl(ends[0], F_SETPIPE_SZ, PIPE_BYTES);
	begin_ns = now_ns();
	pid = fork();
	if (pid < 0)
		die_errno("fork");
	if (!pid) {
		fcntl(ends[1], F_SETFD, 0);
		run_under_lackey(argv + optind + 1, argc - optind - 1, ends[1]);
	}
	close(ends[1]);
	while ((n = read(ends[0], buffer, sizeof(buffer))) > 0 || (n < 0 && errno == EINTR)) {
		if (n < 0)
			continue;
		bytes += n;
		if (by_kind)
			count(&kinds, buffer, n);
		if (file >= 0 && write_all(file, buffer, n) != (size_t)n)
			die_errno("%s", output);
	}
	status = shell_status(wait_for_command(pid, &usage));
	elapsed_ns = now_ns() - begin_ns;

	dprintf(stats, "{\"elapsed_ns\": %llu, \"user_ns\": %llu, \"system_ns\": %llu, \"exit_status\": %d, "
		       "\"bytes\": %llu, ",
		(unsigned long long)elapsed_ns, (unsigned long long)timeval_ns(usage.ru_utime),
		(unsigned long long)timeval_ns(usage.ru_stime), status, (unsigned long long)bytes);
	if (by_kind)
		n = dprintf(stats, "\"code_lines\": %llu, \"code_bytes\": %llu, \"data_lines\": %llu, "
				   "\"data_bytes\": %llu, \"binary_bytes\": %llu, \"packed_bytes\": %llu}\n",
			    (unsigned long long)kinds.code_lines, (unsigned long long)kinds.code_bytes,
			    (unsigned long long)kinds.data_lines, (unsigned long long)kinds.data_bytes,
			    (unsigned long long)kinds.data_lines * 8, (unsigned long long)kinds.packed_bytes);
	else
		n = dprintf(stats, "\"code_lines\": null, \"code_bytes\": null, \"data_lines\": null, "
				   "\"data_bytes\": null, \"binary_bytes\": null, \"packed_bytes\": null}\n");
	if (n < 0)
		die_errno("%s", argv[optind]);
	return status;
}
