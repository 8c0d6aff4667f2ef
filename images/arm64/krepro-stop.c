// SPDX-License-Identifier: MIT
/*
 * krepro-stop: stop the machine by its i6300esb watchdog while the CPU idles, and go on when it runs again. Why while it
 * idles: images/guest/krepro-stop.c.
 */
#include "krepro.h"

#include <dirent.h>
#include <sys/mman.h>

/* QEMU hw/watchdog/wdt_i6300esb.c. Two stages of the same kind follow each other; the second one acts. */
#define DEVICES "/sys/bus/pci/devices"
#define I6300ESB "0x25ab"
enum { TIMER_1 = 0x00, TIMER_2 = 0x04, RELOAD = 0x0c, BYTES = 16 };
enum { RELOAD_NOW = 0x100, UNLOCK_1 = 0x80, UNLOCK_2 = 0x86 };
/* In the configuration space: what the first stage does (3: nothing), and the timer itself. */
enum { CONFIG = 0x60, NO_INTERRUPT = 3, LOCK = 0x68, ENABLE = 2, DISABLE = 0 };
/* A step is 32 * 1024 ticks of 33 MHz, 993 us. */
enum { ONE_SECOND = 1007 };

static char folder[300];

static const char *part(const char *name)
{
	static char path[400];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void find(void)
{
	DIR *devices = opendir(DEVICES);
	struct dirent *entry;
	char text[16];

	while (devices && (entry = readdir(devices))) {
		snprintf(folder, sizeof(folder), DEVICES "/%s", entry->d_name);
		if (get_text(part("device"), text, sizeof(text)) > 0 && !strncmp(text, I6300ESB, strlen(I6300ESB)))
			return;
	}
	die("no i6300esb watchdog");
}

static void put(volatile uint8_t *map, unsigned int at, uint32_t value)
{
	*(volatile uint16_t *)(map + RELOAD) = UNLOCK_1;
	*(volatile uint16_t *)(map + RELOAD) = UNLOCK_2;
	if (at == RELOAD)
		*(volatile uint16_t *)(map + at) = (uint16_t)value;
	else
		*(volatile uint32_t *)(map + at) = value;
}

static void set(off_t at, uint16_t value, size_t bytes)
{
	int config = open_or_die(part("config"), O_WRONLY);

	if (pwrite(config, &value, bytes, at) != (ssize_t)bytes)
		die_errno("%s", part("config"));
	close(config);
}

/* Its registers, which need not begin at a page's begin. */
static volatile uint8_t *map_registers(void)
{
	unsigned long long start = 0;
	char text[80];
	int resource;
	void *map;

	if (get_text(part("resource"), text, sizeof(text)) <= 0 || sscanf(text, "%llx", &start) != 1)
		die("%s does not say where its registers are", part("resource"));
	resource = open_or_die(part("resource0"), O_RDWR);
	map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, resource, 0);
	if (map == MAP_FAILED)
		die_errno("%s", part("resource0"));
	return (volatile uint8_t *)map + (start & ((unsigned long long)sysconf(_SC_PAGESIZE) - 1));
}

int main(void)
{
	struct timespec left = { .tv_sec = 2, .tv_nsec = 500000000 };
	volatile uint8_t *map;

	find();
	put_text(part("enable"), "1");
	map = map_registers();
	put(map, TIMER_1, ONE_SECOND);
	put(map, TIMER_2, ONE_SECOND);
	put(map, RELOAD, RELOAD_NOW);
	set(CONFIG, NO_INTERRUPT, 2);
	set(LOCK, ENABLE, 1);
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
		;
	set(LOCK, DISABLE, 1);
	return 0;
}
