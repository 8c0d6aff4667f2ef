// SPDX-License-Identifier: MIT
/* library WHAT ARGUMENTS...: calls one thing of the guests' library, for tests. */
#include "krepro.h"

#include <sys/wait.h>

static int run(const char *what, char **words)
{
	static const char *const kinds[] = { "one", "two", "three" };
	char text[8];

	if (!strcmp(what, "die"))
		die("no %s", words[0]);
	if (!strcmp(what, "die-errno"))
		open_or_die(words[0], O_RDONLY);
	if (!strcmp(what, "launcher"))
		exit_usage = EXIT_TOOL;
	if (!strcmp(what, "usage") || !strcmp(what, "launcher"))
		die_usage("usage: %s", words[0]);
	if (!strcmp(what, "argument"))
		return printf("%llu\n", (unsigned long long)argument("-n", words[0], 3, 1ull << 40)) < 0;
	if (!strcmp(what, "choice"))
		return printf("%u\n", choice("-k", words[0], kinds, 3)) < 0;
	if (!strcmp(what, "seed"))
		return printf("%llu\n", (unsigned long long)default_seed()) < 0;
	if (!strcmp(what, "get")) {
		ssize_t length = get_text(words[0], text, sizeof(text));

		return printf("%zd %s\n", length, text) < 0;
	}
	if (!strcmp(what, "put"))
		put_text(words[0], words[1]);
	if (!strcmp(what, "count")) {
		int fd = open_or_die(words[0], O_RDWR);

		put_number(fd, words[0], get_number(fd, words[0]) + 1);
	}
	if (!strcmp(what, "start"))
		return shell_status(wait_for_command(start_command(words, NULL, 0), NULL));
	if (!strcmp(what, "hold")) {
		struct held_command held = hold_command(words, NULL, 0);

		puts("held");
		flush_or_die();
		release_command(&held);
		return shell_status(wait_for_command(held.pid, NULL));
	}
	return 0;
}

int main(int argc, char **argv)
{
	return run(argc > 1 ? argv[1] : "", argv + 2);
}
