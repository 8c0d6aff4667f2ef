/*
 * Acquires and releases per call site: every call of, or tail jump to, one of the given functions counts inline
 * at the instruction that makes it. What reaches them through a pointer has no such place; the functions' own
 * entries, counted too, show how much that is.
 */
#include "oracle.h"

#include <errno.h>
#include <string.h>

enum { MAX_SITES = 1 << 14 };

static struct site {
	uint64_t address; /* of the call; the function itself for its entries */
	uint64_t target;
	uint64_t count, at_begin[KINDS];
} sites[MAX_SITES];
static size_t n_sites;
static FILE *sink;

static struct site *site_at(uint64_t address, uint64_t target)
{
	size_t i = (address * 0x9e3779b97f4a7c15ull) >> 50;

	while (sites[i].address && (sites[i].address != address || sites[i].target != target))
		i = (i + 1) % MAX_SITES;
	if (!sites[i].address) {
		if (++n_sites == MAX_SITES)
			die("more than %d call sites of locks", MAX_SITES - 1);
		sites[i].address = address;
		sites[i].target = target;
	}
	return &sites[i];
}

static bool is_lock(uint64_t address)
{
	for (size_t i = 0; i < places.n_locks; i++)
		if (places.lock[i] == address)
			return true;
	return false;
}

/* The target of a direct call, or of a jump; conditional jumps are counted by the entries alone. */
static uint64_t target_of(uint64_t address, const uint8_t *code, size_t size)
{
	int32_t offset;
	uint64_t target;

	if (size != 5 || (code[0] != 0xe8 && code[0] != 0xe9))
		return 0;
	memcpy(&offset, code + 1, sizeof(offset));
	target = address + size + (uint64_t)(int64_t)offset;
	return places.kernel >> 32 ? target : (uint32_t)target;
}

void locks_translate(struct qemu_plugin_insn *insn, uint64_t address, const uint8_t *code, size_t size)
{
	uint64_t target;

	if (!on(MODE_LOCKS) || address < places.kernel)
		return;
	target = target_of(address, code, size);
	if (target && is_lock(target))
		qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64,
							   &site_at(address, target)->count, 1);
	if (is_lock(address))
		qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64,
							   &site_at(address, address)->count, 1);
}

static int by_address(const struct site *a, const struct site *b)
{
	if (a->target != b->target)
		return a->target < b->target ? -1 : 1;
	return a->address < b->address ? -1 : a->address > b->address;
}

void locks_region(enum kind kind, bool begin)
{
	static uint16_t order[MAX_SITES];
	size_t n = 0;

	if (!on(MODE_LOCKS) || kind == KIND_CHECK)
		return;
	for (size_t i = 0; i < MAX_SITES; i++) {
		if (begin)
			sites[i].at_begin[kind] = sites[i].count;
		else if (sites[i].count != sites[i].at_begin[kind])
			order[n++] = (uint16_t)i;
	}
	if (begin)
		return;
	for (size_t i = 1; i < n; i++) /* few, and once per region */
		for (size_t k = i; k && by_address(&sites[order[k]], &sites[order[k - 1]]) < 0; k--) {
			uint16_t swap = order[k];

			order[k] = order[k - 1];
			order[k - 1] = swap;
		}
	if (!sink)
		sink = output("locks.bin");
	for (size_t i = 0; i < n; i++) {
		const struct site *site = &sites[order[i]];
		uint64_t record[4] = { (uint64_t)(region[kind] - 1) | (uint64_t)kind << 32, site->target, site->address,
				       site->count - site->at_begin[kind] };

		if (fwrite(record, sizeof(record), 1, sink) != 1)
			die("locks.bin: %s", strerror(errno));
	}
}

void locks_finish(void)
{
	if (on(MODE_LOCKS) && !sink)
		sink = output("locks.bin");
	if (sink && fclose(sink))
		die("locks.bin: %s", strerror(errno));
	sink = NULL;
}
