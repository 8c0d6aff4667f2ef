// SPDX-License-Identifier: MIT
/* mix ROUNDS: calls that Debian's tools of bpftrace's look for; now and then it runs itself. Static: no linker's calls. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVERY = 20 };

int main(int argc, char **argv)
{
	static char block[512];
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int null = open("/dev/null", O_WRONLY);
	struct stat found;

	for (int i = 0; argc > 1 && i < atoi(argv[1]); i++) {
		int file = open(argv[0], O_RDONLY);

		if (read(file, block, sizeof(block)) != sizeof(block) || write(null, block, sizeof(block)) != sizeof(block))
			return 1;
		close(file);
		syscall(SYS_stat, argv[0], &found);
		kill(getpid(), 0);
		setpriority(PRIO_PROCESS, 0, -1);
		msync(page, 4096, MS_ASYNC);
		syscall(SYS_setuid, 0);
		if (i % EVERY == 0) {
			if (!fork()) {
				execl(argv[0], argv[0], NULL);
				_exit(1);
			}
			wait(NULL);
		}
	}
	return 0;
}
