// SPDX-License-Identifier: MIT
#include "krepro.h"
#include "ppid.h"

#include <sys/mman.h>

const struct ppid_line *ppid_map(void)
{
	int fd = open(PPID_DEVICE, O_RDONLY | O_CLOEXEC);
	void *map;

	if (fd < 0)
		return NULL;
	map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return map == MAP_FAILED ? NULL : map;
}

const char *ppid_source(void)
{
	static const char *const sources[] = { "callback", "tracepoint" };

	for (int i = 0; i < 2; i++) {
		char path[80], value = 0;
		int fd;

		snprintf(path, sizeof(path), "/sys/module/ppid_%s/parameters/active", sources[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (read(fd, &value, 1) != 1)
			value = 0;
		close(fd);
		if (value == 'Y')
			return sources[i];
	}
	return NULL;
}
