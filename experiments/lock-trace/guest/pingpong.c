// SPDX-License-Identifier: MIT
/*
 * pingpong [-n N] [-t pipe|unix] [-b BYTES] [-p PAIRS] [-o DIR]: N times (1000) a message of BYTES bytes (1) goes from
 * one process to another and back, in PAIRS pairs (1) at once. Prints its time as JSON; -o: lap.tsv.
 */
#include "storm.h"

#include <sys/socket.h>

#define USAGE "pingpong [-n N] [-t pipe|unix] [-b BYTES] [-p PAIRS] [-o DIR]"

enum { PIPE, UNIX, MOST_BYTES = 4096 };

static const char *const types[] = { [PIPE] = "pipe", [UNIX] = "unix" };
/* What a process of a pair reads from and writes to. */
static struct { int from, to; } channels[MOST_PROCESSES];
static size_t bytes = 1;

static void send_message(int to, const char *message)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t size = write(to, message + done, bytes - done);

		if (size <= 0)
			die_errno("writing");
		done += size;
	}
}

static void receive_message(int from, char *message)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t size = read(from, message + done, bytes - done);

		if (size <= 0)
			die_with(EXIT_TOOL, size ? errno : 0, "reading");
		done += size;
	}
}

static void storm_work(const struct storm *storm, unsigned int index)
{
	char message[MOST_BYTES] = { 0 };

	for (uint64_t i = 0; i < storm->operations; i++) {
		if (index % 2)
			receive_message(channels[index].from, message);
		send_message(channels[index].to, message);
		if (index % 2 == 0)
			receive_message(channels[index].from, message);
	}
}

static void connect_pair(unsigned int type, unsigned int first)
{
	int there[2], back[2];

	if (type == UNIX) {
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, there))
			die_errno("socketpair");
		channels[first].from = channels[first].to = there[0];
		channels[first + 1].from = channels[first + 1].to = there[1];
		return;
	}
	if (pipe(there) || pipe(back))
		die_errno("pipe");
	channels[first].from = back[0];
	channels[first].to = there[1];
	channels[first + 1].from = there[0];
	channels[first + 1].to = back[1];
}

int main(int argc, char **argv)
{
	struct storm storm = { .operations = 1000, .processes = 2 };
	unsigned int type = PIPE;
	struct lap lap;
	int option;

	opterr = 0;
	while ((option = getopt(argc, argv, "n:t:b:p:o:")) != -1) {
		switch (option) {
		case 'n': storm.operations = argument("-n", optarg, 1, UINT32_MAX); break;
		case 't': type = choice("-t", optarg, types, 2); break;
		case 'b': bytes = argument("-b", optarg, 1, MOST_BYTES); break;
		case 'p': storm.processes = 2 * argument("-p", optarg, 1, MOST_PROCESSES / 2); break;
		case 'o': storm.folder = optarg; break;
		default: die_usage("usage: %s", USAGE);
		}
	}
	if (optind != argc)
		die_usage("usage: %s", USAGE);
	for (unsigned int first = 0; first < storm.processes; first += 2)
		connect_pair(type, first);
	lap = storm_run(&storm, storm_work);
	write_lap(storm.folder, &lap);
	print_times("pingpong", storm.operations * storm.processes / 2, lap.elapsed_ns, lap.end - lap.begin);
	return 0;
}
