/*
 * The oracle's counters (docs/oracle.md): executed instructions of each CPU, where no PMU counts them.
 * The layout is that of harness/oracle/plugin/counters.c. The device is QEMU's ivshmem-plain.
 */
#ifndef KREPRO_COUNTER_H
#define KREPRO_COUNTER_H

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { COUNTER_BYTES = 4096, COUNTER_LINE = 64 };
#define COUNTER_MAGIC 0x72746e636f72706bull

/*
 * Map the counters for reading. NULL with errno set: ENODEV without the device, ENODATA when nobody publishes
 * into it (no oracle, or one without the mode counters).
 */
static inline const volatile unsigned char *counter_map(void)
{
	static const char *const ids[] = { "0x1af4\n", "0x1110\n" };
	static const char *const names[] = { "vendor", "device" };
	const volatile unsigned char *map = MAP_FAILED;
	glob_t found;
	int fd;

	if (glob("/sys/bus/pci/devices/*", 0, NULL, &found)) {
		errno = ENODEV;
		return NULL;
	}
	for (size_t i = 0; i < found.gl_pathc && map == MAP_FAILED; i++) {
		char path[256], text[16];
		bool mine = true;

		for (int what = 0; what < 2 && mine; what++) {
			snprintf(path, sizeof(path), "%s/%s", found.gl_pathv[i], names[what]);
			fd = open(path, O_RDONLY | O_CLOEXEC);
			memset(text, 0, sizeof(text));
			mine = fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && !strcmp(text, ids[what]);
			if (fd >= 0)
				close(fd);
		}
		if (!mine)
			continue;
		/* No driver has switched it on. */
		snprintf(path, sizeof(path), "%s/enable", found.gl_pathv[i]);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd >= 0) {
			if (write(fd, "1", 1) != 1)
				errno = EIO;
			close(fd);
		}
		snprintf(path, sizeof(path), "%s/resource2", found.gl_pathv[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		map = mmap(NULL, COUNTER_BYTES, PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
	}
	globfree(&found);
	if (map == MAP_FAILED) {
		errno = ENODEV;
		return NULL;
	}
	if (*(const volatile uint64_t *)map != COUNTER_MAGIC) {
		munmap((void *)map, COUNTER_BYTES);
		errno = ENODATA;
		return NULL;
	}
	return map;
}

static inline unsigned int counter_cpus(const volatile unsigned char *map)
{
	return (unsigned int)*(const volatile uint64_t *)(map + 8);
}

/* Instructions that `cpu` has executed; differences are what counts. */
static inline uint64_t counter_read(const volatile unsigned char *map, unsigned int cpu)
{
	const volatile unsigned char *at = map + (1 + cpu) * COUNTER_LINE;
#if __SIZEOF_POINTER__ == 8
	return *(const volatile uint64_t *)at;
#else
	uint32_t high, low;

	do { /* two reads: not across a carry */
		high = ((const volatile uint32_t *)at)[1];
		low = ((const volatile uint32_t *)at)[0];
	} while (high != ((const volatile uint32_t *)at)[1]);
	return (uint64_t)high << 32 | low;
#endif
}

/* Of a CPU's thread on the host, ns: time on a CPU, and of waiting for one. As of the latest roi_host(). */
struct counter_host {
	uint64_t run, wait;
};

static inline struct counter_host counter_host(const volatile unsigned char *map, unsigned int cpu)
{
	const volatile uint64_t *at = (const volatile uint64_t *)(map + (1 + cpu) * COUNTER_LINE);

	return (struct counter_host){ at[1], at[2] };
}

#endif
