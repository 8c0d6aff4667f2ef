// SPDX-License-Identifier: GPL-2.0
/*
 * Page trace: the order of pages that a process touches.
 *
 * A traced task runs on a page table of its own, in which next to nothing is
 * mapped. Each access to another page faults, is recorded, and has the entry
 * copied from the mm's page table. In effect this is a TLB that software fills:
 * x86 flushes the TLBs whenever an entry of the mm's page table is taken away
 * or restricted, and whatever is copied here is dropped just before.
 *
 * Pages with code stay mapped. Of the others only the last one does, so that
 * the next access to any other is seen. An instruction may need several at
 * once: as long as its registers do not change, it has not completed, and
 * nothing is taken away.
 *
 * Lock order: page_trace_lock (who is traced), page_trace_tasks_lock of an mm
 * (who copies from it), page_trace_task.lock, page_trace.ring_lock. All are
 * taken with interrupts off. Page faults come in NMIs too; there nobody waits
 * for a lock.
 */
#define pr_fmt(fmt) "page_trace: " fmt

#include <linux/kdebug.h>
#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/page_trace.h>
#include <linux/personality.h>
#include <linux/sched/mm.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <asm/debugreg.h>
#include <asm/page_trace.h>
#include <asm/pgalloc.h>
#include <asm/tlbflush.h>
#include <asm/trap_pf.h>

#include "page_trace.h"

DEFINE_STATIC_KEY_FALSE(page_trace_key);

/* -- the page table of a traced task ---------------------------------------- */

struct page_trace_task *page_trace_alloc(void)
{
	struct page_trace_task *pt = kzalloc(sizeof(*pt), GFP_KERNEL);
	unsigned int i;

	if (!pt)
		return NULL;
	raw_spin_lock_init(&pt->lock);
	INIT_LIST_HEAD(&pt->list);
	INIT_HLIST_NODE(&pt->mm_list);

	/* An mm without memory: what keeps kernel mappings in step knows it. */
	pt->shadow = mm_alloc();
	if (!pt->shadow)
		goto fail;
	for (i = 0; i < PAGE_TRACE_POOL; i++) {
		pt->pool[i] = __get_free_page(GFP_KERNEL);
		if (!pt->pool[i])
			goto fail;
	}
	return pt;
fail:
	page_trace_free(pt);
	return NULL;
}

static void clear_user_pgds(struct page_trace_task *pt)
{
	pgd_t *pgd = pt->shadow->pgd;
	unsigned int i;

	for (i = 0; i < KERNEL_PGD_BOUNDARY; i++)
		if (pgd_val(pgd[i]))
			set_pgd(&pgd[i], __pgd(0));
}

/* @pt is nowhere loaded and nobody finds it any more. */
void page_trace_free(struct page_trace_task *pt)
{
	unsigned int i;

	for (i = 0; i < PAGE_TRACE_POOL; i++)
		free_page(pt->pool[i]);
	if (pt->shadow) {
		clear_user_pgds(pt);
		mmdrop(pt->shadow);
	}
	kfree(pt);
}

static unsigned long pool_get(struct page_trace_task *pt, bool leaf)
{
	unsigned int i = pt->pool_used++;

	__assign_bit(i, pt->leaf, leaf);
	clear_page((void *)pt->pool[i]);
	return __pa(pt->pool[i]) | _PAGE_TABLE;
}

/* The entry of @address, or NULL where it would need a new table. */
static pte_t *find_entry(struct page_trace_task *pt, unsigned long address)
{
	pgd_t *pgd = pgd_offset_pgd(pt->shadow->pgd, address);
	p4d_t *p4d;
	pud_t *pud;
	pmd_t *pmd;

	if (pgd_none(*pgd))
		return NULL;
	p4d = p4d_offset(pgd, address);
	if (p4d_none(*p4d))
		return NULL;
	pud = pud_offset(p4d, address);
	if (pud_none(*pud))
		return NULL;
	pmd = pmd_offset(pud, address);
	if (pmd_none(*pmd))
		return NULL;
	return pte_offset_kernel(pmd, address);
}

/* Low bit of page_trace_task.page[]: the visit began with a write. */
#define PAGE_WRITTEN	1UL

/*
 * Take a data page away, and say so if its visit began with a read and wrote
 * later. Clear it first: a CPU that has not set the dirty bit yet must look at
 * the entry again to write.
 */
static void take(struct page_trace_task *pt, unsigned long page)
{
	pte_t *ptep = find_entry(pt, page & PAGE_MASK);
	pte_t old;

	if (!(pt->trace->flags & PAGE_TRACE_WROTE)) {
		set_pte(ptep, __pte(0));
		return;
	}
	old = __pte(xchg(&ptep->pte, 0));
	if (!(page & PAGE_WRITTEN) && pte_flags(old) & _PAGE_DIRTY)
		page_trace_record(pt->trace, PAGE_TRACE_TYPE(WROTE),
				  page >> PAGE_SHIFT, pt->tid, 0);
}

static void take_all(struct page_trace_task *pt)
{
	unsigned int i;

	for (i = 0; i < pt->pages; i++)
		take(pt, pt->page[(pt->first + i) % PAGE_TRACE_MAX_WINDOW]);
	pt->pages = 0;
}

/*
 * The task is current: only its own CPU can have the page table in use, and
 * forgets all of it before a page of it gets another meaning.
 */
static void recycle(struct page_trace_task *pt)
{
	take_all(pt);
	clear_user_pgds(pt);
	flush_tlb_local();
	pt->pool_used = 0;
	pt->stats.recycled++;
}

/* The same with new tables; the task is current. */
static pte_t *make_entry(struct page_trace_task *pt, unsigned long address)
{
	pgd_t *pgd;
	p4d_t *p4d;
	pud_t *pud;
	pmd_t *pmd;

	/* Four levels below the top one is what a single entry can need. */
	if (pt->pool_used + 4 > PAGE_TRACE_POOL && !find_entry(pt, address))
		recycle(pt);

	pgd = pgd_offset_pgd(pt->shadow->pgd, address);
	if (pgd_none(*pgd))
		set_pgd(pgd, __pgd(pool_get(pt, false)));
	p4d = p4d_offset(pgd, address);
	if (p4d_none(*p4d))
		set_p4d(p4d, __p4d(pool_get(pt, false)));
	pud = pud_offset(p4d, address);
	if (pud_none(*pud))
		set_pud(pud, __pud(pool_get(pt, false)));
	pmd = pmd_offset(pud, address);
	if (pmd_none(*pmd))
		set_pmd(pmd, __pmd(pool_get(pt, true)));
	return pte_offset_kernel(pmd, address);
}

/* Take all but the @keep youngest data pages away; the task is current. */
static void shrink(struct page_trace_task *pt, unsigned int keep)
{
	pt->n_gone = 0;
	while (pt->pages > keep) {
		unsigned long address = pt->page[pt->first] & PAGE_MASK;

		take(pt, pt->page[pt->first]);
		flush_tlb_one_user(address);
		pt->gone[pt->n_gone++] = address;
		pt->first = (pt->first + 1) % PAGE_TRACE_MAX_WINDOW;
		pt->pages--;
	}
}

/* Take the data pages away that were written first, or read first. */
static void drop_operand(struct page_trace_task *pt, bool write)
{
	unsigned int i, kept = 0;

	for (i = 0; i < pt->pages; i++) {
		unsigned long page = pt->page[(pt->first + i) % PAGE_TRACE_MAX_WINDOW];

		if ((page & PAGE_WRITTEN) != write) {
			pt->page[(pt->first + kept++) % PAGE_TRACE_MAX_WINDOW] = page;
			continue;
		}
		take(pt, page);
		flush_tlb_one_user(page & PAGE_MASK);
	}
	pt->pages = kept;
}

static void drop_all(struct page_trace_task *pt)
{
	unsigned int i;

	pt->stats.drops += pt->pages;
	take_all(pt);
	/* The tables above stay: another CPU may have them in use. */
	for_each_set_bit(i, pt->leaf, pt->pool_used)
		clear_page((void *)pt->pool[i]);
}

static void drop_range(struct page_trace_task *pt, unsigned long start,
		       unsigned long end)
{
	unsigned int i, kept = 0;
	unsigned long address;

	for (i = 0; i < pt->pages; i++) {
		address = pt->page[(pt->first + i) % PAGE_TRACE_MAX_WINDOW];
		if ((address & PAGE_MASK) >= start && address < end) {
			take(pt, address);
			continue;
		}
		pt->page[(pt->first + kept++) % PAGE_TRACE_MAX_WINDOW] = address;
	}
	pt->stats.drops += pt->pages - kept;
	pt->pages = kept;

	for (address = start; address < end; address += PAGE_SIZE) {
		pte_t *ptep = find_entry(pt, address);

		if (ptep)
			set_pte(ptep, __pte(0));
	}
}

void __page_trace_drop(struct mm_struct *mm, unsigned long start,
		       unsigned long end)
{
	bool all = end == TLB_FLUSH_ALL ||
		   (end - start) >> PAGE_SHIFT > PTRS_PER_PTE;
	struct page_trace_task *pt;
	unsigned long flags;

	raw_spin_lock_irqsave(&mm->context.page_trace_tasks_lock, flags);
	hlist_for_each_entry(pt, &mm->context.page_trace_tasks, mm_list) {
		raw_spin_lock(&pt->lock);
		if (all)
			drop_all(pt);
		else
			drop_range(pt, start & PAGE_MASK, end);
		raw_spin_unlock(&pt->lock);
	}
	raw_spin_unlock_irqrestore(&mm->context.page_trace_tasks_lock, flags);
}

/*
 * Who clears an accessed bit wants to know whether it is set again. The CPU
 * sets that of a copy; so entries of code, which stay, are copied anew. The
 * TLBs may still know them, as they may without a trace. Those of data are
 * copied at each visit, and must not go without a flush: the page would stay
 * accessible, and visits after it be hidden.
 */
void __page_trace_old(struct mm_struct *mm, unsigned long start,
		      unsigned long end)
{
	struct page_trace_task *pt;
	unsigned long address, flags;

	raw_spin_lock_irqsave(&mm->context.page_trace_tasks_lock, flags);
	hlist_for_each_entry(pt, &mm->context.page_trace_tasks, mm_list) {
		raw_spin_lock(&pt->lock);
		for (address = start; address < end; address += PAGE_SIZE) {
			pte_t *ptep = find_entry(pt, address);

			if (ptep && !(pte_flags(*ptep) & _PAGE_NX))
				set_pte(ptep, __pte(0));
		}
		raw_spin_unlock(&pt->lock);
	}
	raw_spin_unlock_irqrestore(&mm->context.page_trace_tasks_lock, flags);
}

/*
 * Nothing of @mm may be copied while its flushes do not find @pt: who is in its
 * list and where the task copies from change together.
 */
static void set_mm(struct page_trace_task *pt, struct mm_struct *mm, bool bound)
{
	raw_spin_lock(&mm->context.page_trace_tasks_lock);
	raw_spin_lock(&pt->lock);
	drop_all(pt);
	if (bound)
		hlist_add_head(&pt->mm_list, &mm->context.page_trace_tasks);
	else
		hlist_del_init(&pt->mm_list);
	WRITE_ONCE(pt->mm, bound ? mm : NULL);
	pt->last_valid = false;
	raw_spin_unlock(&pt->lock);
	raw_spin_unlock(&mm->context.page_trace_tasks_lock);
}

/* Copy from @mm, or from nowhere if NULL, from here on; page_trace_lock. */
void page_trace_bind(struct page_trace_task *pt, struct mm_struct *mm)
{
	if (pt->mm)
		set_mm(pt, pt->mm, false);
	if (mm)
		set_mm(pt, mm, true);
}

pgd_t *page_trace_pgd(struct mm_struct *mm, struct task_struct *tsk)
{
	struct page_trace_task *pt = READ_ONCE((tsk ?: current)->page_trace);

	if (!pt || READ_ONCE(pt->mm) != mm)
		return NULL;
#ifdef CONFIG_MODIFY_LDT_SYSCALL
	/* Page table isolation maps the LDT through the mm's own page table. */
	if (cpu_feature_enabled(X86_FEATURE_PTI) && READ_ONCE(mm->context.ldt)) {
		WRITE_ONCE(pt->stats.unfit, 1);
		return NULL;
	}
#endif
	return pt->shadow->pgd;
}

/* -- the mm's page table ------------------------------------------------------ */

static bool permits(pteval_t entry, unsigned long error_code)
{
	if (!(entry & _PAGE_USER))
		return false;
	if ((error_code & X86_PF_WRITE) && !(entry & _PAGE_RW))
		return false;
	return !((error_code & X86_PF_INSTR) && (entry & _PAGE_NX));
}

/*
 * Do to an entry of any level what the CPU does when it uses it. The value is
 * without _PAGE_PRESENT where it cannot be used.
 */
static pteval_t use_entry(pteval_t *entry, unsigned long error_code)
{
	pteval_t old = READ_ONCE(*entry), new;

	do {
		if (!(old & _PAGE_PRESENT) || !permits(old, error_code))
			return old;
		new = old | _PAGE_ACCESSED;
		if (error_code & X86_PF_WRITE)
			new |= _PAGE_DIRTY;
	} while (new != old && !try_cmpxchg(entry, &old, new));
	return new;
}

/*
 * Walk the page table as get_user_pages_fast() does: with interrupts off no
 * table is freed. Returns an entry for 4 KiB; without _PAGE_PRESENT where
 * nothing is mapped.
 */
static pteval_t walk(struct mm_struct *mm, unsigned long address,
		     unsigned long error_code)
{
	pgd_t pgd, *pgdp = pgd_offset(mm, address);
	p4d_t p4d, *p4dp;
	pud_t pud, *pudp;
	pmd_t pmd, *pmdp;
	unsigned long pfn;
	pgprot_t prot;

	pgd = READ_ONCE(*pgdp);
	if (pgd_none(pgd))
		return 0;
	p4dp = p4d_offset_lockless(pgdp, pgd, address);
	p4d = READ_ONCE(*p4dp);
	if (!p4d_present(p4d))
		return 0;
	pudp = pud_offset_lockless(p4dp, p4d, address);
	pud = READ_ONCE(*pudp);
	if (!pud_present(pud))
		return 0;
	if (pud_leaf(pud)) {
		pud = __pud(use_entry(&pudp->pud, error_code));
		pfn = pud_pfn(pud) + ((address & ~PUD_MASK) >> PAGE_SHIFT);
		prot = pud_pgprot(pud);
		goto huge;
	}
	pmdp = pmd_offset_lockless(pudp, pud, address);
	pmd = READ_ONCE(*pmdp);
	if (!pmd_present(pmd))
		return 0;
	if (pmd_leaf(pmd)) {
		pmd = __pmd(use_entry(&pmdp->pmd, error_code));
		pfn = pmd_pfn(pmd) + ((address & ~PMD_MASK) >> PAGE_SHIFT);
		prot = pmd_pgprot(pmd);
		goto huge;
	}
	/* Of tables only these age: see lru_gen_look_around(). */
	if (!(pmd_val(pmd) & _PAGE_ACCESSED))
		use_entry(&pmdp->pmd, X86_PF_USER);
	return use_entry(&pte_offset_kernel(&pmd, address)->pte, error_code);

huge:
	/* Taken apart or changed since: nothing that could be copied. */
	if ((pgprot_val(prot) & (_PAGE_PRESENT | _PAGE_PSE)) !=
	    (_PAGE_PRESENT | _PAGE_PSE))
		return 0;
	return ((pteval_t)pfn << PAGE_SHIFT) |
	       pgprot_val(pgprot_large_2_4k(prot));
}

/* -- stepping over an instruction ---------------------------------------------- */

/* User instructions that would show the trap flag to the user, or set it. */
static u8 step_kind(struct pt_regs *regs)
{
	const u8 __user *ip = (const u8 __user *)regs->ip;
	unsigned int i;
	u8 byte;

	for (i = 0; i < 4; i++) {
		if (copy_from_user_nofault(&byte, ip + i, 1))
			return 0;
		if (byte == 0x9c)			/* pushf */
			return PAGE_TRACE_STEP_PUSHF;
		if (byte == 0x9d || byte == 0xcf)	/* popf, iret */
			return PAGE_TRACE_STEP_POPF;
		/* Operand size and REX prefixes. */
		if (byte != 0x66 && (byte & 0xf0) != 0x40)
			return 0;
	}
	return 0;
}

/* The instruction that holds several pages is over at the next debug trap. */
static void page_trace_step(struct pt_regs *regs)
{
	u8 step = PAGE_TRACE_STEP_ON;

	if (!(regs->flags & X86_EFLAGS_TF)) {
		step |= PAGE_TRACE_STEP_OWN;
		if (user_mode(regs))
			step |= step_kind(regs);
		regs->flags |= X86_EFLAGS_TF;
	}
	current->page_trace_step = step;
}

/*
 * The instruction will not complete now, or it was a popf that cleared TF. The
 * kernel may get here in the middle of a step, in another frame: nothing to do.
 */
void __page_trace_unstep(struct pt_regs *regs)
{
	if (!(regs->flags & X86_EFLAGS_TF) && !user_mode(regs))
		return;
	if (current->page_trace_step & PAGE_TRACE_STEP_OWN)
		regs->flags &= ~X86_EFLAGS_TF;
	current->page_trace_step = 0;
}

/* The pushed flags are at the top of the stack, TF in their second byte. */
static void clear_pushed_tf(struct pt_regs *regs)
{
	u8 __user *flags = (u8 __user *)regs->sp + 1;
	u8 byte;

	if (copy_from_user_nofault(&byte, flags, 1))
		return;
	byte &= ~(X86_EFLAGS_TF >> 8);
	copy_to_user_nofault(flags, &byte, 1);
}

static void stepped(struct page_trace_task *pt, struct pt_regs *regs)
{
	/*
	 * One iteration of a string instruction. With fewer pages than these
	 * each further one would fault twice. In the kernel only one operand
	 * is a user's.
	 */
	if (user_mode(regs) && regs->ip == pt->last.ip) {
		pt->kept = true;
		pt->stats.kept++;
		return;
	}
	shrink(pt, pt->trace->window > 1 ? pt->trace->window : 0);
	pt->last_valid = false;
	pt->restarted = false;
	pt->stats.steps++;
}

static int page_trace_debug(struct notifier_block *self, unsigned long val,
			    void *data)
{
	struct die_args *args = data;
	unsigned long *dr6 = ERR_PTR(args->err);
	struct page_trace_task *pt = READ_ONCE(current->page_trace);
	struct pt_regs *regs = args->regs;
	u8 step = current->page_trace_step;

	if (val != DIE_DEBUG || !step || !(*dr6 & DR_STEP))
		return NOTIFY_DONE;
	current->page_trace_step = 0;
	/* After a popf TF is what was popped. */
	if ((step & PAGE_TRACE_STEP_OWN) && !(step & PAGE_TRACE_STEP_POPF))
		regs->flags &= ~X86_EFLAGS_TF;
	if (step & PAGE_TRACE_STEP_PUSHF)
		clear_pushed_tf(regs);

	/*
	 * A debug trap of the kernel counts as an NMI. If the lock is taken,
	 * the pages stay until the next fault.
	 */
	if (pt && this_cpu_read(cpu_tlbstate.trace_pgd) == pt->shadow->pgd &&
	    raw_spin_trylock(&pt->lock)) {
		stepped(pt, regs);
		raw_spin_unlock(&pt->lock);
	}

	/* Somebody else's step is theirs to report. */
	if (!(step & PAGE_TRACE_STEP_OWN))
		return NOTIFY_DONE;
	*dr6 &= ~DR_STEP;
	if (user_mode(regs))
		current->thread.virtual_dr6 &= ~DR_STEP;
	return *dr6 ? NOTIFY_DONE : NOTIFY_STOP;
}
NOKPROBE_SYMBOL(page_trace_debug);

/* Registered for good: a step can outlive the trace that began it. */
static struct notifier_block page_trace_debug_nb = {
	.notifier_call	= page_trace_debug,
	.priority	= INT_MAX - 1,	/* kprobes come first */
};

static int __init page_trace_debug_init(void)
{
	return register_die_notifier(&page_trace_debug_nb);
}
core_initcall(page_trace_debug_init);

/* -- visits ------------------------------------------------------------------- */

/*
 * The instruction that faulted last has not completed: nothing that it could
 * have changed differs. Flags are left out, since a fault sets RF and a step TF.
 */
static bool same_instruction(const struct pt_regs *a, const struct pt_regs *b)
{
	return a->ip == b->ip && a->sp == b->sp && a->cs == b->cs &&
	       !memcmp(a, b, offsetof(struct pt_regs, orig_ax));
}

/*
 * The last visit took @address away from the instruction that now needs it, so
 * which of its pages it touches first cannot be told: with nothing accessible
 * it says so.
 */
static bool must_restart(struct page_trace_task *pt, unsigned long address)
{
	unsigned int i;

	if (pt->restarted || pt->trace->window > 1)
		return false;
	for (i = 0; i < pt->n_gone; i++)
		if (pt->gone[i] == address)
			return true;
	return false;
}

/*
 * The kernel takes user mode's pages away before the instruction that faulted
 * on them has completed, after an interrupt: it will come back and fault anew.
 */
static void note_interrupted(struct page_trace_task *pt)
{
	struct pt_regs *user = task_pt_regs(current);

	if (pt->last_valid && user_mode(&pt->last)) {
		/* What a string instruction has done so far is done. */
		pt->again = !pt->kept && same_instruction(user, &pt->last);
		if (pt->again)
			pt->user = pt->last;
	} else if (pt->again) {
		pt->again = same_instruction(user, &pt->user);
	}
}

static void visit(struct page_trace_task *pt, struct pt_regs *regs,
		  unsigned long error_code, unsigned long address, pte_t entry,
		  bool same)
{
	unsigned int flags = PAGE_TRACE_TYPE(VISIT);
	unsigned int window = pt->trace->window;
	bool write = error_code & X86_PF_WRITE;
	pte_t *ptep;

	if (!user_mode(regs)) {
		note_interrupted(pt);
	} else {
		if (pt->again && same_instruction(regs, &pt->user))
			flags |= PAGE_TRACE_F_AGAIN;
		pt->again = false;
	}
	if (same && pt->restarted) {
		flags |= PAGE_TRACE_F_AGAIN;
		same = false;
	}
	pt->restarted = false;

	if (!same && pt->kept && regs->ip == pt->last.ip) {
		/* A string instruction goes on: one of its operands moved. */
		drop_operand(pt, write);
		same = true;
	} else {
		pt->kept = false;
	}
	shrink(pt, (same ? PAGE_TRACE_MAX_WINDOW : window) - 1);
	ptep = make_entry(pt, address);
	set_pte(ptep, entry);
	pt->page[(pt->first + pt->pages++) % PAGE_TRACE_MAX_WINDOW] = address | write;

	if (write)
		flags |= PAGE_TRACE_F_WRITE;
	if (!(error_code & X86_PF_USER))
		flags |= PAGE_TRACE_F_KERNEL;
	if (same)
		flags |= PAGE_TRACE_F_SAME;
	if (page_trace_record(pt->trace, flags, address >> PAGE_SHIFT, pt->tid,
			      regs->ip))
		pt->stats.records++;
	else
		pt->stats.lost++;

	pt->last = *regs;
	pt->last_valid = true;
}

static void code(struct page_trace_task *pt, struct pt_regs *regs,
		 unsigned long error_code, unsigned long address, pte_t entry)
{
	set_pte(make_entry(pt, address), entry);
	pt->stats.code++;
	if (pt->trace->flags & PAGE_TRACE_CODE)
		page_trace_record(pt->trace, PAGE_TRACE_TYPE(CODE),
				  address >> PAGE_SHIFT, pt->tid, regs->ip);
	/* All its pages are executable: there is nothing to be seen. */
	if (!(error_code & X86_PF_INSTR) && !pt->stats.unfit &&
	    current->personality & READ_IMPLIES_EXEC)
		pt->stats.unfit = 1;
}

/* True: repeat the access; *@grown: it needs several pages at once. */
static bool fault(struct page_trace_task *pt, struct pt_regs *regs,
		  unsigned long *error_code, unsigned long address, bool *grown)
{
	pteval_t real;
	pte_t entry, *ptep;
	bool same;

	pt->stats.faults++;
	/* The vsyscall page is the kernel's. */
	if (address >= TASK_SIZE_MAX ||
	    *error_code & ~(X86_PF_PROT | X86_PF_WRITE | X86_PF_USER |
			    X86_PF_INSTR)) {
		pt->stats.slow++;
		return false;
	}

	real = walk(pt->mm, address, *error_code);
	if (real & _PAGE_PRESENT)
		*error_code |= X86_PF_PROT;
	else
		*error_code &= ~X86_PF_PROT;
	if (!(real & _PAGE_PRESENT) || !permits(real, *error_code)) {
		pt->stats.slow++;
		return false;
	}

	/* Data where there can be code: more of it will not be seen. */
	if ((real & (_PAGE_RW | _PAGE_NX)) == _PAGE_RW &&
	    !(*error_code & X86_PF_INSTR))
		pt->stats.unfit = 1;

	/* The first write has to come here: it makes the mm's entry dirty. */
	if (!(real & _PAGE_DIRTY))
		real &= ~_PAGE_RW;
	entry = __pte(real & ~_PAGE_GLOBAL);

	ptep = find_entry(pt, address);
	/* The copy is dirty if the task has written since it began to read. */
	if ((pt->trace->flags & PAGE_TRACE_WROTE) && !(*error_code & X86_PF_WRITE) &&
	    !(ptep && pte_flags(*ptep) & _PAGE_DIRTY))
		entry = pte_clear_flags(entry, _PAGE_DIRTY);
	if (ptep && pte_present(*ptep)) {
		if (permits(pte_val(*ptep), *error_code))
			pt->stats.spurious++;
		else
			pt->stats.upgrades++;
		set_pte(ptep, entry);
		flush_tlb_one_user(address);
		return true;
	}

	if (!(real & _PAGE_NX)) {
		code(pt, regs, *error_code, address, entry);
		return true;
	}
	same = pt->last_valid && same_instruction(regs, &pt->last);
	if (same && must_restart(pt, address)) {
		shrink(pt, 0);
		pt->restarted = true;
		pt->stats.spurious++;
		return true;
	}
	*grown = same && !pt->restarted;
	visit(pt, regs, *error_code, address, entry, same);
	return true;
}

bool __page_trace_fault(struct pt_regs *regs, unsigned long *error_code,
			unsigned long address)
{
	struct page_trace_task *pt = READ_ONCE(current->page_trace);
	pgd_t *pgd = this_cpu_read(cpu_tlbstate.trace_pgd);
	bool handled, grown = false;

	/* On the mm's own page table, or kernel code is borrowing another mm. */
	if (!pgd)
		return false;
	if (!pt || pgd != pt->shadow->pgd)
		goto stale;
	if (!raw_spin_trylock(&pt->lock)) {
		if (in_nmi())
			return false;
		raw_spin_lock(&pt->lock);
	}
	if (!pt->mm) {
		raw_spin_unlock(&pt->lock);
		goto stale;
	}
	page_trace_unstep(regs);
	handled = fault(pt, regs, error_code, address & PAGE_MASK, &grown);
	raw_spin_unlock(&pt->lock);

	if (grown)
		page_trace_step(regs);
	return handled;

stale:
	/*
	 * Detached by another CPU, whose call to reload has not come yet.
	 * Nothing is mapped any more: reload, and repeat the access.
	 */
	if (in_nmi())
		return false;
	page_trace_reload(NULL);
	return true;
}
NOKPROBE_SYMBOL(__page_trace_fault);
