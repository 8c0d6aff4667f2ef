// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lock trace's tables: of locks, and, of each CPU, what acquisitions of a
 * lock at a place came to. Entries are added by whoever comes first, without a
 * lock.
 */
#include <linux/debugfs.h>
#include <linux/hash.h>
#include <linux/init.h>
#include <linux/kallsyms.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/task_stack.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <asm/sections.h>

#include "lock_trace.h"

enum {	/* lock_trace_entry::memory */
	LOCK_TRACE_STATIC = 1,
	LOCK_TRACE_PERCPU,
	LOCK_TRACE_SLAB,
	LOCK_TRACE_STACK,
	LOCK_TRACE_VMALLOC,
	LOCK_TRACE_OTHER_MEMORY,
};

static const char *const lock_trace_memories[] = {
	"?", "static", "percpu", "slab", "stack", "vmalloc", "other",
};

static struct lock_trace_entry *lock_trace_entries;
static unsigned int lock_trace_lock_order, lock_trace_site_order;
unsigned int lock_trace_sum_shift;
DEFINE_PER_CPU(struct lock_trace_sum *, lock_trace_sums);

/* Where locks were initialised, of as many as there is room for. */
static struct {
	unsigned long lock;
	unsigned long check;		/* lock ^ site: both are of one lock */
} lock_trace_inits[1 << 14];

/* No hook runs. */
int lock_trace_table_start(unsigned int lock_order, unsigned int site_order)
{
	unsigned long i;
	int cpu;

	if (lock_order != lock_trace_lock_order) {
		vfree(lock_trace_entries);
		lock_trace_entries = NULL;
		lock_trace_lock_order = lock_order;
	}
	for_each_possible_cpu(cpu) {
		struct lock_trace_sum **sums = per_cpu_ptr(&lock_trace_sums, cpu);

		if (site_order != lock_trace_site_order) {
			vfree(*sums);
			*sums = NULL;
		}
	}
	lock_trace_site_order = site_order;
	lock_trace_sum_shift = 64 - site_order;
	if (!lock_trace_entries)
		lock_trace_entries = vmalloc(sizeof(*lock_trace_entries) << lock_order);
	if (!lock_trace_entries)
		return -ENOMEM;
	memset(lock_trace_entries, 0, sizeof(*lock_trace_entries) << lock_order);
	for (i = 0; i < 1UL << lock_order; i++)
		lock_trace_entries[i].index = i + 1;
	for_each_possible_cpu(cpu) {
		struct lock_trace_sum **sums = per_cpu_ptr(&lock_trace_sums, cpu);

		if (!*sums)
			*sums = vmalloc_node(sizeof(**sums) << site_order,
					     cpu_to_node(cpu));
		if (!*sums)
			return -ENOMEM;
		memset(*sums, 0, sizeof(**sums) << site_order);
	}
	memset(lock_trace_inits, 0, sizeof(lock_trace_inits));
	return 0;
}

/* -- locks -------------------------------------------------------------------- */

/* Where the lock lies says most of what it is: locks have no names. */
void lock_trace_classify(struct lock_trace_entry *entry)
{
	const void *lock = (const void *)entry->lock;
	unsigned int at = hash_long(entry->lock, 14);

	if (READ_ONCE(lock_trace_inits[at].lock) == entry->lock)
		entry->init_site = lock_trace_inits[at].check ^ entry->lock;

	if (is_kernel_percpu_address(entry->lock) ||
	    is_module_percpu_address(entry->lock))
		entry->memory = LOCK_TRACE_PERCPU;
	else if (is_kernel(entry->lock) || is_module_address(entry->lock))
		entry->memory = LOCK_TRACE_STATIC;
	else if (object_is_on_stack(lock))
		entry->memory = LOCK_TRACE_STACK;
	else if (is_vmalloc_addr(lock))
		entry->memory = LOCK_TRACE_VMALLOC;
	else if (kmem_cache_of(lock, entry->cache, sizeof(entry->cache),
			       &entry->offset))
		entry->memory = LOCK_TRACE_SLAB;
	else
		entry->memory = LOCK_TRACE_OTHER_MEMORY;
}

void lock_trace_initialised(unsigned long lock, unsigned long site)
{
	unsigned int at = hash_long(lock, 14);

	WRITE_ONCE(lock_trace_inits[at].lock, lock);
	WRITE_ONCE(lock_trace_inits[at].check, lock ^ site);
}

struct lock_trace_entry *lock_trace_place(unsigned long lock, unsigned int probe)
{
	unsigned long mask = (1UL << lock_trace_lock_order) - 1;

	return &lock_trace_entries[((lock * GOLDEN_RATIO_64 >>
				     (64 - lock_trace_lock_order)) + probe) & mask];
}

/* The lock's entry, or NULL when it has none. */
struct lock_trace_entry *lock_trace_look(unsigned long lock)
{
	unsigned int probe;

	for (probe = 0; probe < LOCK_TRACE_PROBES; probe++) {
		struct lock_trace_entry *entry = lock_trace_place(lock, probe);
		unsigned long found = READ_ONCE(entry->lock);

		if (found == lock)
			return entry;
		if (!found)
			return NULL;
	}
	return NULL;
}

/* The same, or a new one, or NULL when the table is full. */
struct lock_trace_entry *lock_trace_find(unsigned long lock)
{
	unsigned int probe;

	for (probe = 0; probe < LOCK_TRACE_PROBES; probe++) {
		struct lock_trace_entry *entry = lock_trace_place(lock, probe);
		unsigned long found = READ_ONCE(entry->lock);

		if (!found) {
			found = cmpxchg(&entry->lock, 0, lock);
			if (!found) {
				lock_trace_classify(entry);
				return entry;
			}
		}
		if (found == lock)
			return entry;
	}
	return NULL;
}

void lock_trace_for_each(void (*do_entry)(struct lock_trace_entry *entry))
{
	unsigned long i;

	for (i = 0; i < 1UL << lock_trace_lock_order; i++)
		if (lock_trace_entries[i].lock)
			do_entry(&lock_trace_entries[i]);
}

/* -- sums ------------------------------------------------------------------------- */

/* lock_trace_sum() where the first place is not theirs. */
struct lock_trace_sum *lock_trace_add_sum(unsigned long lock, u64 key)
{
	struct lock_trace_sum *sums = this_cpu_read(lock_trace_sums);
	unsigned long mask = (1UL << lock_trace_site_order) - 1;
	unsigned long at = (lock ^ key) * GOLDEN_RATIO_64 >> lock_trace_sum_shift;
	unsigned int probe;

	for (probe = 0; probe < LOCK_TRACE_PROBES; probe++) {
		struct lock_trace_sum *sum = &sums[(at + probe) & mask];

		if (!READ_ONCE(sum->lock) && !cmpxchg_local(&sum->lock, 0, lock))
			/* An interrupt meanwhile takes another place for the same. */
			WRITE_ONCE(sum->key, key);
		if (sum->lock == lock && sum->key == key)
			return sum;
	}
	lock_trace_count(sites_full, 1);
	return NULL;
}

void lock_trace_table_count(u64 *locks, u64 *sites)
{
	unsigned long i;
	int cpu;

	for (i = 0; lock_trace_entries && i < 1UL << lock_trace_lock_order; i++)
		*locks += !!lock_trace_entries[i].lock;
	for_each_possible_cpu(cpu) {
		const struct lock_trace_sum *sums = per_cpu(lock_trace_sums, cpu);

		for (i = 0; sums && i < 1UL << lock_trace_site_order; i++)
			*sites += !!sums[i].lock;
	}
}

/* -- debugfs ------------------------------------------------------------------------- */

/* Position 0 is the line of names, n is element n - 1. START waits. */
static void *lock_trace_locks_at(loff_t *pos, bool next)
{
	if (next)
		++*pos;
	if (!*pos)
		return SEQ_START_TOKEN;
	for (; lock_trace_entries && *pos <= 1L << lock_trace_lock_order; ++*pos)
		if (lock_trace_entries[*pos - 1].lock)
			return &lock_trace_entries[*pos - 1];
	return NULL;
}

static void *lock_trace_locks_start(struct seq_file *m, loff_t *pos)
{
	lock_trace_control_begin();
	return lock_trace_locks_at(pos, false);
}

static void *lock_trace_locks_next(struct seq_file *m, void *v, loff_t *pos)
{
	return lock_trace_locks_at(pos, true);
}

static void lock_trace_seq_stop(struct seq_file *m, void *v)
{
	lock_trace_control_end();
}

static int lock_trace_locks_show(struct seq_file *m, void *v)
{
	const struct lock_trace_entry *entry = v;

	if (v == SEQ_START_TOKEN) {
		seq_puts(m, "entry\taddress\tgeneration\tkind\tname\toffset\tinit_site\n");
		return 0;
	}
	seq_printf(m, "%u\t0x%lx\t%u\t%s\t", entry->index, entry->lock,
		   entry->generation, lock_trace_memories[entry->memory]);
	if (entry->memory == LOCK_TRACE_SLAB)
		seq_printf(m, "%s\t%u\t", entry->cache, entry->offset);
	else if (entry->memory == LOCK_TRACE_STATIC)
		seq_printf(m, "%pS\t0\t", (void *)entry->lock);
	else
		seq_puts(m, "-\t0\t");
	if (entry->init_site)
		seq_printf(m, "%pS\n", (void *)entry->init_site);
	else
		seq_puts(m, "-\n");
	return 0;
}

static const struct seq_operations lock_trace_locks_sops = {
	.start = lock_trace_locks_start,
	.next = lock_trace_locks_next,
	.stop = lock_trace_seq_stop,
	.show = lock_trace_locks_show,
};
DEFINE_SEQ_ATTRIBUTE(lock_trace_locks);

/* All CPUs' sums, one after another. */
static void *lock_trace_sites_at(loff_t *pos, bool next)
{
	unsigned long size = 1UL << lock_trace_site_order;

	if (next)
		++*pos;
	if (!*pos)
		return SEQ_START_TOKEN;
	for (; *pos <= (loff_t)(size * nr_cpu_ids); ++*pos) {
		unsigned int cpu = (*pos - 1) / size;
		struct lock_trace_sum *sums = cpu_possible(cpu) ?
			per_cpu(lock_trace_sums, cpu) : NULL;

		if (sums && sums[(*pos - 1) % size].lock)
			return &sums[(*pos - 1) % size];
	}
	return NULL;
}

static void *lock_trace_sites_start(struct seq_file *m, loff_t *pos)
{
	lock_trace_control_begin();
	return lock_trace_sites_at(pos, false);
}

static void *lock_trace_sites_next(struct seq_file *m, void *v, loff_t *pos)
{
	return lock_trace_sites_at(pos, true);
}

static int lock_trace_sites_show(struct seq_file *m, void *v)
{
	struct lock_trace_sum *sum = v;
	unsigned long text;

	if (v == SEQ_START_TOKEN) {
		seq_puts(m, "lock\ttype\tsite\tsymbol\tacquisitions\tcontended\tfailed\tabandoned\tkept\twait_total\n");
		return 0;
	}
	text = (unsigned long)(long)(s32)sum->key;
	seq_printf(m, "0x%lx\t%u\t0x%lx\t%pS", sum->lock, (u32)(sum->key >> 32),
		   text, (void *)text);
	seq_printf(m, "\t%lu\t%lu\t%lu\t%lu\t%lu\t%lu\n",
		   local_read(&sum->acquisitions), local_read(&sum->contended),
		   local_read(&sum->failed), local_read(&sum->abandoned),
		   local_read(&sum->kept), local_read(&sum->wait_total));
	return 0;
}

static const struct seq_operations lock_trace_sites_sops = {
	.start = lock_trace_sites_start,
	.next = lock_trace_sites_next,
	.stop = lock_trace_seq_stop,
	.show = lock_trace_sites_show,
};
DEFINE_SEQ_ATTRIBUTE(lock_trace_sites);

static int __init lock_trace_debugfs_init(void)
{
	struct dentry *folder = debugfs_create_dir("lock_trace", NULL);

	debugfs_create_file("locks", 0400, folder, NULL, &lock_trace_locks_fops);
	debugfs_create_file("sites", 0400, folder, NULL, &lock_trace_sites_fops);
	return 0;
}
device_initcall(lock_trace_debugfs_init);
