/* SPDX-License-Identifier: MIT */
/*
 * The oracle's counters (docs/oracle.md): executed instructions of each CPU, where no PMU counts them.
 * The layout is that of harness/oracle/plugin/counters.c. The device is QEMU's ivshmem-plain.
 */
#ifndef KREPRO_COUNTER_H
#define KREPRO_COUNTER_H

#include <stdint.h>

enum { COUNTER_BYTES = 4096, COUNTER_LINE = 64 };
#define COUNTER_MAGIC 0x72746e636f72706bull

/*
 * Map the counters for reading. NULL with errno set: ENODEV without the device, ENODATA when nobody publishes
 * into it (no oracle, or one without the mode counters).
 */
const volatile unsigned char *counter_map(void);

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
