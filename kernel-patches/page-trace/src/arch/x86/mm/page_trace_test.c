// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of the page trace: its records, and which pages stay accessible in
 * which order. No task is traced: the fault handler is called as for a task that
 * runs on the lent page table, with registers that are made up.
 */
#include <kunit/test.h>
#include <linux/irq_work.h>
#include <linux/kdebug.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include <asm/debugreg.h>
#include <asm/page_trace.h>
#include <asm/tlbflush.h>
#include <asm/trap_pf.h>

#include "page_trace.h"

#define RECORDS		8	/* of the ring's own tests */
#define MANY		256
#define PAGES		8	/* of data */

struct world {
	struct page_trace	trace;
	struct page_trace_task	*pt;
	struct mm_struct	*mm;
	struct pt_regs		regs;
	unsigned long		data;
	unsigned long		error_code;	/* as the last fault left it */
	bool			stepping;	/* and whether it set the trap flag */
	u64			read;		/* records */
	int			wakes;
};

/* -- records --------------------------------------------------------------------- */

static void count_wake(struct irq_work *work)
{
	container_of(work, struct world, trace.wake)->wakes++;
}

static bool record(struct world *world, unsigned int flags, u64 page, pid_t tid,
		   unsigned long ip)
{
	bool room;

	local_irq_disable();
	room = page_trace_record(&world->trace, flags, page, tid, ip);
	local_irq_enable();
	irq_work_sync(&world->trace.wake);
	return room;
}

static struct page_trace_record *record_at(struct world *world, u64 n)
{
	struct page_trace_record *first = (void *)world->trace.ring + PAGE_SIZE;

	return first + (n & (world->trace.records - 1));
}

static int begin(struct kunit *test, u32 records)
{
	struct world *world = kunit_kzalloc(test, sizeof(*world), GFP_KERNEL);
	struct page_trace *trace;

	if (!world)
		return -ENOMEM;
	test->priv = world;
	trace = &world->trace;
	INIT_LIST_HEAD(&trace->tasks);
	raw_spin_lock_init(&trace->ring_lock);
	init_waitqueue_head(&trace->wait);
	init_irq_work(&trace->wake, count_wake);
	trace->window = 1;
	trace->records = records;
	trace->ring = vmalloc_user(PAGE_SIZE + PAGE_ALIGN(records * sizeof(*record_at(world, 0))));
	return trace->ring ? 0 : -ENOMEM;
}

static int ring_init(struct kunit *test)
{
	return begin(test, RECORDS);
}

static void ring_exit(struct kunit *test)
{
	struct world *world = test->priv;

	if (!world)
		return;
	irq_work_sync(&world->trace.wake);
	vfree(world->trace.ring);
}

static void record_has_its_fields(struct kunit *test)
{
	struct world *world = test->priv;
	u64 *word = record_at(world, 0)->word;

	KUNIT_EXPECT_TRUE(test, record(world, PAGE_TRACE_TYPE(WROTE) | PAGE_TRACE_F_WRITE,
				       0x7ffffffffULL, 0x3abcde, 0xffffffff81234567UL));
	KUNIT_EXPECT_EQ(test, world->trace.ring->head, 1ULL);
	KUNIT_EXPECT_EQ(test, word[0] & 0xfff,
			(u64)PAGE_TRACE_T_WROTE << 8 | PAGE_TRACE_F_WRITE);
	KUNIT_EXPECT_EQ(test, word[1] >> 12, 0x7ffffffffULL);
	KUNIT_EXPECT_EQ(test, word[1] & 0xfff, 0xcdeULL);
	KUNIT_EXPECT_EQ(test, word[2] >> 48, 0x3abULL);
	KUNIT_EXPECT_EQ(test, word[2] << 16 >> 16, 0xffff81234567ULL);
	KUNIT_EXPECT_TRUE(test, record(world, 0, 0, 1, 0));
	KUNIT_EXPECT_GE(test, record_at(world, 1)->word[0] >> 12, word[0] >> 12);
}

/* What finds no room is told with the next that does, and needs room of its own. */
static void ring_is_full(struct kunit *test)
{
	struct world *world = test->priv;
	int i;

	for (i = 0; i < RECORDS; i++)
		KUNIT_EXPECT_TRUE(test, record(world, 0, i, 1, 0));
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_FALSE(test, record(world, 0, 100, 1, 0));
	KUNIT_EXPECT_FALSE(test, record(world, PAGE_TRACE_TYPE(EXIT), 0, 1, 0));
	KUNIT_EXPECT_EQ(test, world->trace.other_lost, 1ULL);
	KUNIT_EXPECT_EQ(test, world->trace.ring->head, (u64)RECORDS);
	world->trace.ring->tail = 1;
	KUNIT_EXPECT_FALSE(test, record(world, 0, 100, 1, 0));
	world->trace.ring->tail = 2;
	KUNIT_EXPECT_TRUE(test, record(world, 0, 200, 1, 0));
	KUNIT_EXPECT_EQ(test, record_at(world, RECORDS)->word[0] & 0xfff,
			(u64)PAGE_TRACE_T_LOST << 8);
	KUNIT_EXPECT_EQ(test, record_at(world, RECORDS)->word[1] >> 12, 4ULL);
	KUNIT_EXPECT_EQ(test, record_at(world, RECORDS + 1)->word[1] >> 12, 200ULL);
	/* The third is where it was. */
	KUNIT_EXPECT_EQ(test, record_at(world, 2)->word[1] >> 12, 2ULL);
	KUNIT_EXPECT_EQ(test, world->trace.other_lost, 1ULL);
}

static void reader_is_woken_at_quarters(struct kunit *test)
{
	struct world *world = test->priv;
	static const int wakes[RECORDS] = { 0, 0, 1, 1, 2, 2, 3, 3 };
	int i;

	for (i = 0; i < RECORDS; i++) {
		record(world, 0, i, 1, 0);
		KUNIT_EXPECT_EQ(test, world->wakes, wakes[i]);
	}
}

/* He has read what was never written: nothing is, and nothing else happens. */
static void reader_says_nonsense(struct kunit *test)
{
	struct world *world = test->priv;

	record(world, 0, 1, 1, 0);
	world->trace.ring->tail = 2;
	KUNIT_EXPECT_FALSE(test, record(world, 0, 2, 1, 0));
	world->trace.ring->tail = U64_MAX / 2;
	KUNIT_EXPECT_FALSE(test, record(world, 0, 2, 1, 0));
	/* head is the kernel's own. */
	world->trace.ring->head = 77;
	world->trace.ring->tail = 1;
	KUNIT_EXPECT_TRUE(test, record(world, 0, 3, 1, 0));
	KUNIT_EXPECT_EQ(test, world->trace.ring->head, 3ULL);
}

static struct kunit_case page_trace_ring_cases[] = {
	KUNIT_CASE(record_has_its_fields),
	KUNIT_CASE(ring_is_full),
	KUNIT_CASE(reader_is_woken_at_quarters),
	KUNIT_CASE(reader_says_nonsense),
	{}
};

static struct kunit_suite page_trace_ring_suite = {
	.name = "page_trace_ring",
	.init = ring_init,
	.exit = ring_exit,
	.test_cases = page_trace_ring_cases,
};

/* -- visits --------------------------------------------------------------------------- */

/* Memory of the test's own mm, with its pages there; or an error. */
static unsigned long map(struct world *world, unsigned long at, unsigned int pages,
			 unsigned long prot)
{
	unsigned long address, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	unsigned int i;
	u8 byte = 0;

	kthread_use_mm(world->mm);
	address = vm_mmap(NULL, at, pages * PAGE_SIZE, prot,
			  at ? flags | MAP_FIXED : flags, 0);
	for (i = 0; !IS_ERR_VALUE(address) && i < pages; i++) {
		u8 __user *byte_of = (u8 __user *)(address + i * PAGE_SIZE);

		if (prot & PROT_WRITE ? put_user(byte, byte_of) : get_user(byte, byte_of))
			address = -EFAULT;
	}
	kthread_unuse_mm(world->mm);
	return address;
}

static int visits_init(struct kunit *test)
{
	struct world *world;
	int err = begin(test, MANY);

	if (err)
		return err;
	world = test->priv;
	world->mm = mm_alloc();
	world->pt = page_trace_alloc();
	if (!world->mm || !world->pt)
		return -ENOMEM;
	world->mm->task_size = TASK_SIZE;
	arch_pick_mmap_layout(world->mm, &current->signal->rlim[RLIMIT_STACK]);
	world->data = map(world, 0, PAGES, PROT_READ | PROT_WRITE);
	if (IS_ERR_VALUE(world->data))
		return (int)world->data;
	world->pt->trace = &world->trace;
	world->pt->tid = 1;
	world->regs.cs = __USER_CS;
	world->regs.ip = world->data;
	local_irq_disable();
	page_trace_bind(world->pt, world->mm);
	local_irq_enable();
	return 0;
}

static void visits_exit(struct kunit *test)
{
	struct world *world = test->priv;

	if (!world)
		return;
	if (world->pt) {
		local_irq_disable();
		page_trace_bind(world->pt, NULL);
		local_irq_enable();
		page_trace_free(world->pt);
	}
	if (world->mm)
		mmput(world->mm);
	ring_exit(test);
}

/* current runs on the lent page table, as far as the fault handler can tell. */
static void lend(struct world *world, bool on)
{
	pgd_t *pgd = on ? world->pt->shadow->pgd : NULL;

	if (on)
		local_irq_disable();
	this_cpu_write(cpu_tlbstate.trace_pgd, pgd);
	WRITE_ONCE(current->page_trace, on ? world->pt : NULL);
	if (!on)
		local_irq_enable();
}

static bool touch_at(struct world *world, unsigned long address, unsigned long how)
{
	bool handled;

	world->error_code = X86_PF_USER | how;
	lend(world, true);
	handled = __page_trace_fault(&world->regs, &world->error_code, address);
	world->stepping = current->page_trace_step;
	lend(world, false);
	irq_work_sync(&world->trace.wake);
	return handled;
}

/* By the same instruction as before. */
static bool again(struct world *world, unsigned int page, unsigned long how)
{
	return touch_at(world, world->data + page * PAGE_SIZE + 8 * page, how);
}

/* By another one. */
static bool touch(struct world *world, unsigned int page, unsigned long how)
{
	world->regs.ip += 4;
	return again(world, page, how);
}

/* The step is over: the instruction has completed, or a string has one iteration. */
static int debug_trap(struct world *world, unsigned long ip)
{
	unsigned long dr6 = DR_STEP;
	int ret;

	world->regs.ip = ip;
	lend(world, true);
	ret = notify_die(DIE_DEBUG, "debug", &world->regs, (long)&dr6, 0, SIGTRAP);
	lend(world, false);
	return ret;
}

static bool accessible(struct world *world, unsigned int page)
{
	unsigned long address = world->data + page * PAGE_SIZE;
	unsigned int level;
	pte_t *ptep = lookup_address_in_pgd(pgd_offset_pgd(world->pt->shadow->pgd, address),
					    address, &level);

	return ptep && pte_present(*ptep);
}

/* The next record is of a type, with flags, and of this page of the data. */
static void expect_record(struct kunit *test, unsigned int page, unsigned int flags)
{
	struct world *world = test->priv;
	struct page_trace_record *record = record_at(world, world->read);

	KUNIT_ASSERT_LT(test, world->read, world->trace.head);
	world->read++;
	KUNIT_EXPECT_EQ(test, record->word[0] & 0xfff, (u64)flags);
	KUNIT_EXPECT_EQ(test, record->word[1] >> 12, (world->data >> PAGE_SHIFT) + page);
}

static void expect_no_record(struct kunit *test)
{
	struct world *world = test->priv;
	struct page_trace_stats *stats = &world->pt->stats;

	KUNIT_EXPECT_EQ(test, world->read, world->trace.head);
	KUNIT_EXPECT_EQ(test, stats->faults,
			stats->records + stats->lost + stats->code + stats->slow +
			stats->upgrades + stats->spurious);
}

static void window_of_one(struct kunit *test)
{
	struct world *world = test->priv;

	KUNIT_EXPECT_TRUE(test, touch(world, 0, 0));
	KUNIT_EXPECT_TRUE(test, touch(world, 1, X86_PF_WRITE));
	KUNIT_EXPECT_FALSE(test, accessible(world, 0));
	KUNIT_EXPECT_TRUE(test, accessible(world, 1));
	KUNIT_EXPECT_TRUE(test, touch(world, 0, 0));
	KUNIT_EXPECT_FALSE(test, world->stepping);
	expect_record(test, 0, 0);
	expect_record(test, 1, PAGE_TRACE_F_WRITE);
	expect_record(test, 0, 0);
	/* It is accessible: the TLB had something old. */
	KUNIT_EXPECT_TRUE(test, touch(world, 0, X86_PF_WRITE));
	KUNIT_EXPECT_EQ(test, world->pt->stats.spurious, 1ULL);
	expect_no_record(test);
}

static void window_of_three(struct kunit *test)
{
	struct world *world = test->priv;
	static const u8 pages[] = { 0, 1, 2, 3, 1, 4 };
	unsigned int i;

	world->trace.window = 3;
	for (i = 0; i < ARRAY_SIZE(pages); i++)
		touch(world, pages[i], 0);
	/* The oldest goes; who is touched again stays as old as he is. */
	for (i = 0; i < PAGES; i++)
		KUNIT_EXPECT_EQ(test, accessible(world, i), i == 2 || i == 3 || i == 4);
	KUNIT_EXPECT_EQ(test, world->pt->pages, 3U);
	KUNIT_EXPECT_EQ(test, world->pt->stats.records, 5ULL);
	KUNIT_EXPECT_EQ(test, world->pt->stats.spurious, 1ULL);
}

/* The ring of pages turns round. */
static void window_is_full(struct kunit *test)
{
	struct world *world = test->priv;
	unsigned int i, turn;

	world->trace.window = PAGES - 1;
	for (turn = 0; turn < 20; turn++)
		for (i = 0; i < PAGES; i++)
			KUNIT_EXPECT_TRUE(test, touch(world, i, 0));
	KUNIT_EXPECT_EQ(test, world->pt->stats.records, 20ULL * PAGES);
	KUNIT_EXPECT_EQ(test, world->pt->pages, PAGES - 1U);
	KUNIT_EXPECT_FALSE(test, accessible(world, 0));
	for (i = 1; i < PAGES; i++)
		KUNIT_EXPECT_TRUE(test, accessible(world, i));
}

static void instruction_with_two_pages(struct kunit *test)
{
	struct world *world = test->priv;

	touch(world, 0, 0);
	again(world, 1, X86_PF_WRITE);
	KUNIT_EXPECT_TRUE(test, accessible(world, 0));
	KUNIT_EXPECT_TRUE(test, accessible(world, 1));
	KUNIT_EXPECT_TRUE(test, world->stepping);
	KUNIT_EXPECT_NE(test, world->regs.flags & X86_EFLAGS_TF, 0UL);
	KUNIT_EXPECT_EQ(test, debug_trap(world, world->regs.ip + 4), NOTIFY_STOP);
	KUNIT_EXPECT_EQ(test, world->regs.flags & X86_EFLAGS_TF, 0UL);
	KUNIT_EXPECT_FALSE(test, accessible(world, 0));
	KUNIT_EXPECT_FALSE(test, accessible(world, 1));
	KUNIT_EXPECT_EQ(test, world->pt->stats.steps, 1ULL);
	touch(world, 1, 0);
	expect_record(test, 0, 0);
	expect_record(test, 1, PAGE_TRACE_F_WRITE | PAGE_TRACE_F_SAME);
	expect_record(test, 1, 0);
	expect_no_record(test);
}

/* What its first visit took away it needs: its order can be told only anew. */
static void instruction_begun_anew(struct kunit *test)
{
	struct world *world = test->priv;

	touch(world, 1, 0);
	touch(world, 0, 0);
	again(world, 1, 0);
	KUNIT_EXPECT_FALSE(test, accessible(world, 0));
	KUNIT_EXPECT_FALSE(test, accessible(world, 1));
	KUNIT_EXPECT_EQ(test, world->pt->stats.spurious, 1ULL);
	again(world, 0, 0);
	again(world, 1, 0);
	KUNIT_EXPECT_TRUE(test, world->stepping);
	debug_trap(world, world->regs.ip + 4);
	expect_record(test, 1, 0);
	expect_record(test, 0, 0);
	expect_record(test, 0, PAGE_TRACE_F_AGAIN);
	expect_record(test, 1, PAGE_TRACE_F_SAME);
	expect_no_record(test);
}

/* One operand's page at a time gives way while the instruction stays. */
static void string_instruction(struct kunit *test)
{
	struct world *world = test->priv;

	touch(world, 0, 0);
	again(world, 1, X86_PF_WRITE);
	debug_trap(world, world->regs.ip);
	KUNIT_EXPECT_EQ(test, world->pt->stats.kept, 1ULL);
	KUNIT_EXPECT_TRUE(test, accessible(world, 0));
	KUNIT_EXPECT_TRUE(test, accessible(world, 1));
	world->regs.di += 8;
	again(world, 2, X86_PF_WRITE);
	KUNIT_EXPECT_TRUE(test, accessible(world, 0));
	KUNIT_EXPECT_FALSE(test, accessible(world, 1));
	KUNIT_EXPECT_TRUE(test, accessible(world, 2));
	touch(world, 3, 0);
	KUNIT_EXPECT_EQ(test, world->pt->pages, 1U);
	expect_record(test, 0, 0);
	expect_record(test, 1, PAGE_TRACE_F_WRITE | PAGE_TRACE_F_SAME);
	expect_record(test, 2, PAGE_TRACE_F_WRITE | PAGE_TRACE_F_SAME);
	expect_record(test, 3, 0);
	expect_no_record(test);
}

static void flush_drops_copies(struct kunit *test)
{
	struct world *world = test->priv;
	unsigned long page = world->data + PAGE_SIZE;

	world->trace.window = 3;
	touch(world, 0, 0);
	touch(world, 1, X86_PF_WRITE);
	touch(world, 2, 0);
	__page_trace_drop(world->mm, page, page + PAGE_SIZE);
	KUNIT_EXPECT_TRUE(test, accessible(world, 0));
	KUNIT_EXPECT_FALSE(test, accessible(world, 1));
	KUNIT_EXPECT_TRUE(test, accessible(world, 2));
	KUNIT_EXPECT_EQ(test, world->pt->pages, 2U);
	/* A place is free: nobody has to go. */
	touch(world, 3, 0);
	KUNIT_EXPECT_TRUE(test, accessible(world, 0));
	__page_trace_drop(world->mm, 0, TLB_FLUSH_ALL);
	KUNIT_EXPECT_EQ(test, world->pt->pages, 0U);
	KUNIT_EXPECT_FALSE(test, accessible(world, 0));
	KUNIT_EXPECT_EQ(test, world->pt->stats.drops, 4ULL);
	touch(world, 0, 0);
	KUNIT_EXPECT_EQ(test, world->pt->stats.records, 5ULL);
}

static void what_the_mm_refuses(struct kunit *test)
{
	struct world *world = test->priv;
	unsigned long page = map(world, 0, 1, PROT_READ);

	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(page));
	KUNIT_EXPECT_FALSE(test, touch_at(world, page, X86_PF_WRITE));
	KUNIT_EXPECT_EQ(test, world->error_code, X86_PF_USER | X86_PF_WRITE | X86_PF_PROT);
	KUNIT_EXPECT_FALSE(test, touch_at(world, PAGE_SIZE, X86_PF_PROT));
	KUNIT_EXPECT_EQ(test, world->error_code, (unsigned long)X86_PF_USER);
	KUNIT_EXPECT_FALSE(test, touch_at(world, TASK_SIZE_MAX, 0));
	/* Instructions are not fetched from data. */
	KUNIT_EXPECT_FALSE(test, touch(world, 0, X86_PF_INSTR));
	KUNIT_EXPECT_EQ(test, world->pt->stats.slow, 4ULL);
	/* It may be read. */
	KUNIT_EXPECT_TRUE(test, touch_at(world, page, 0));
	KUNIT_EXPECT_EQ(test, world->pt->stats.records, 1ULL);
}

static void code_stays(struct kunit *test)
{
	struct world *world = test->priv;
	unsigned long page = map(world, 0, 1, PROT_READ | PROT_EXEC);

	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(page));
	KUNIT_EXPECT_TRUE(test, touch_at(world, page, X86_PF_INSTR));
	touch(world, 0, 0);
	touch(world, 1, 0);
	KUNIT_EXPECT_TRUE(test, touch_at(world, page, X86_PF_INSTR));
	KUNIT_EXPECT_EQ(test, world->pt->stats.code, 1ULL);
	KUNIT_EXPECT_EQ(test, world->pt->stats.spurious, 1ULL);
	KUNIT_EXPECT_EQ(test, world->pt->stats.unfit, 0ULL);
	/* It is faulted in anew once the mm's accessed bit was cleared. */
	__page_trace_old(world->mm, page, page + PAGE_SIZE);
	KUNIT_EXPECT_TRUE(test, touch_at(world, page, X86_PF_INSTR));
	KUNIT_EXPECT_EQ(test, world->pt->stats.code, 2ULL);
	expect_record(test, 0, 0);
	expect_record(test, 1, 0);
	expect_no_record(test);
}

static void visit_that_wrote_later(struct kunit *test)
{
	struct world *world = test->priv;
	unsigned int level;
	pte_t *ptep;

	world->trace.flags = PAGE_TRACE_WROTE;
	touch(world, 0, 0);
	ptep = lookup_address_in_pgd(pgd_offset_pgd(world->pt->shadow->pgd, world->data),
				     world->data, &level);
	KUNIT_ASSERT_NOT_NULL(test, ptep);
	KUNIT_EXPECT_FALSE(test, pte_dirty(*ptep));
	/* As the CPU does. */
	set_pte(ptep, __pte(pte_val(*ptep) | _PAGE_DIRTY));
	touch(world, 1, X86_PF_WRITE);
	touch(world, 2, 0);
	touch(world, 0, 0);
	expect_record(test, 0, 0);
	expect_record(test, 0, PAGE_TRACE_TYPE(WROTE));
	expect_record(test, 1, PAGE_TRACE_F_WRITE);
	expect_record(test, 2, 0);
	expect_record(test, 0, 0);
	expect_no_record(test);
}

/* More tables than there are: it starts again with none. */
static void tables_are_used_up(struct kunit *test)
{
	struct world *world = test->priv;
	unsigned long far = 0x100000000000UL, address;
	unsigned int i;

	world->trace.window = 4;
	for (i = 0; i < PAGE_TRACE_POOL; i++) {
		address = map(world, far + i * PUD_SIZE, 1, PROT_READ | PROT_WRITE);
		KUNIT_ASSERT_EQ(test, address, far + i * PUD_SIZE);
		world->regs.ip += 4;
		KUNIT_EXPECT_TRUE(test, touch_at(world, address, X86_PF_WRITE));
	}
	KUNIT_EXPECT_EQ(test, world->pt->stats.records, (u64)PAGE_TRACE_POOL);
	KUNIT_EXPECT_EQ(test, world->pt->stats.recycled, 2ULL);
	KUNIT_EXPECT_LE(test, world->pt->pool_used, (unsigned int)PAGE_TRACE_POOL);
	KUNIT_EXPECT_EQ(test, world->pt->pages, 4U);
}

static struct kunit_case page_trace_visits_cases[] = {
	KUNIT_CASE(window_of_one),
	KUNIT_CASE(window_of_three),
	KUNIT_CASE(window_is_full),
	KUNIT_CASE(instruction_with_two_pages),
	KUNIT_CASE(instruction_begun_anew),
	KUNIT_CASE(string_instruction),
	KUNIT_CASE(flush_drops_copies),
	KUNIT_CASE(what_the_mm_refuses),
	KUNIT_CASE(code_stays),
	KUNIT_CASE(visit_that_wrote_later),
	KUNIT_CASE(tables_are_used_up),
	{}
};

static struct kunit_suite page_trace_visits_suite = {
	.name = "page_trace_visits",
	.init = visits_init,
	.exit = visits_exit,
	.test_cases = page_trace_visits_cases,
};
kunit_test_suites(&page_trace_ring_suite, &page_trace_visits_suite);
