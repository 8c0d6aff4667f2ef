// SPDX-License-Identifier: GPL-2.0-or-later
#include "registers.h"

#include <string.h>

#ifdef GUEST_ARM64
WEAK int aarch64_cpu_gdb_read_register(void *cpu, struct byte_array *into, int number);
#define gdb_read_register aarch64_cpu_gdb_read_register
#else
#define gdb_read_register x86_cpu_gdb_read_register
#endif

static struct byte_array *bytes;

bool registers_known(void)
{
	return qemu_get_cpu && gdb_read_register && g_byte_array_sized_new && g_byte_array_set_size;
}

const char *registers_lacks(const struct settings *settings)
{
	(void)settings;
	return registers_known() && cpu_memory_rw_debug ? NULL : "this QEMU does not export its registers and memory";
}

void registers_init(void)
{
	if (registers_known())
		bytes = g_byte_array_sized_new(64);
}

uint64_t read_register_of(unsigned int cpu, int number)
{
	uint64_t value = 0;
	int size;

	g_byte_array_set_size(bytes, 0);
	size = gdb_read_register(qemu_get_cpu((int)cpu), bytes, number);
	memcpy(&value, bytes->data, size > 0 && size <= 8 ? (size_t)size : 0);
	return value;
}

uint64_t read_register(int number)
{
	return read_register_of(0, number);
}
