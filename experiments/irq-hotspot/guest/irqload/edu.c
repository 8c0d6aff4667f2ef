// SPDX-License-Identifier: MIT
#include "edu.h"

#include <dirent.h>
#include <sys/mman.h>

#define EDU_DRIVER "/sys/bus/pci/drivers/krepro-edu"

enum { EDU_MAP_SIZE = 4096 };

static int edu_attribute(const struct edu *edu, const char *name, int flags)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", edu->path, name);
	return open_or_die(path, flags);
}

void edu_open(struct edu *edu)
{
	DIR *directory = opendir(EDU_DRIVER);
	struct dirent *entry;
	int fd;

	if (!directory)
		die_errno("%s (is the kernel patched, is sysfs mounted?)", EDU_DRIVER);
	/* The device's folder is the driver's link whose name is a PCI address. */
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

void edu_raise_kernel(const struct edu *edu)
{
	put_number(edu->raise, "raise", 1);
}

void edu_work(const struct edu *edu, uint64_t loops)
{
	put_number(edu->work, "work", loops);
}
