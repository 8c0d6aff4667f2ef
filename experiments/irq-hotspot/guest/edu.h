/*
 * The krepro-edu driver as a program sees it: its sysfs attributes and, mapped,
 * the device's registers. Units are those of Documentation/ABI/testing/
 * sysfs-driver-krepro-edu in the kernel patch: one loop is two instructions.
 */
#ifndef EDU_H
#define EDU_H

#include "krepro.h"

#include <dirent.h>
#include <limits.h>
#include <sys/mman.h>

#define EDU_DRIVER "/sys/bus/pci/drivers/krepro-edu"

enum {
	EDU_STATUS = 0x24,
	EDU_RAISE = 0x60,
	EDU_USER_BIT = 0x2, /* bit 0 is the driver's own */
	EDU_MAP_SIZE = 4096,
	EDU_SPINS = 100000000,
};

struct edu {
	char path[PATH_MAX / 2];
	volatile uint32_t *registers;
	int handler_loops, irqs_on, handled, raise, work;
};

static inline int edu_attribute(const struct edu *edu, const char *name, int flags)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", edu->path, name);
	return open_or_die(path, flags);
}

/* The device's folder is the driver's link whose name is a PCI address. */
static inline void edu_open(struct edu *edu)
{
	DIR *directory = opendir(EDU_DRIVER);
	struct dirent *entry;
	int fd;

	if (!directory)
		die_errno("%s (is the kernel patched, is sysfs mounted?)", EDU_DRIVER);
	edu->path[0] = '\0';
	while ((entry = readdir(directory)))
		if (strlen(entry->d_name) == strlen("0000:00:00.0") && entry->d_name[4] == ':')
			snprintf(edu->path, sizeof(edu->path), "%s/%s", EDU_DRIVER, entry->d_name);
	closedir(directory);
	if (!edu->path[0])
		die("%s: no device (does the machine have QEMU's edu device?)", EDU_DRIVER);

	edu->handler_loops = edu_attribute(edu, "handler_loops", O_RDWR);
	edu->irqs_on = edu_attribute(edu, "irqs_on", O_RDWR);
	edu->handled = edu_attribute(edu, "handled", O_RDONLY);
	edu->raise = edu_attribute(edu, "raise", O_WRONLY);
	edu->work = edu_attribute(edu, "work", O_WRONLY);
	fd = edu_attribute(edu, "resource0", O_RDWR | O_SYNC);
	edu->registers = mmap(NULL, EDU_MAP_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (edu->registers == MAP_FAILED)
		die_errno("mapping %s/resource0", edu->path);
	close(fd);
}

/* One interrupt out of user mode. Waits for the handler, lest two become one. */
static inline void edu_raise_user(const struct edu *edu)
{
	edu->registers[EDU_RAISE / 4] = EDU_USER_BIT;
	for (int spin = 0; edu->registers[EDU_STATUS / 4]; spin++)
		if (spin == EDU_SPINS)
			die("%s: the interrupt that was raised is not handled", edu->path);
}

/* One interrupt out of kernel mode, inside krepro_edu_raise(). */
static inline void edu_raise_kernel(const struct edu *edu)
{
	put_number(edu->raise, "raise", 1);
}

static inline void edu_work(const struct edu *edu, uint64_t loops)
{
	put_number(edu->work, "work", loops);
}

#endif
