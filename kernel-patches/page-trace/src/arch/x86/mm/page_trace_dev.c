// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/page_trace: which tasks are traced, and their records on the way out.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/page_trace.h>
#include <linux/personality.h>
#include <linux/pid_namespace.h>
#include <linux/poll.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>

#include <asm/page_trace.h>

#include "page_trace.h"

#define MIN_RECORDS	1024
#define MAX_RECORDS	BIT(22)
#define RING_OFFSET	PAGE_SIZE

/* Who is traced: page_trace.tasks, task_struct.page_trace. Flushes need it not. */
static DEFINE_RAW_SPINLOCK(page_trace_lock);

/* Serialises start and stop; protects the number of traces that run. */
static DEFINE_MUTEX(page_trace_mutex);
static unsigned int page_trace_running;

/* Patching code stops all CPUs: not for each of many short traces. */
static void page_trace_key_off(struct work_struct *work)
{
	static_branch_dec(&page_trace_key);
}
static DECLARE_DELAYED_WORK(page_trace_key_work, page_trace_key_off);

/* -- records ------------------------------------------------------------------ */

static void put_record(struct page_trace *trace, unsigned int flags, u64 page,
		       pid_t tid, unsigned long ip)
{
	struct page_trace_record *record = (void *)trace->ring + RING_OFFSET;
	u64 ns = ktime_get_mono_fast_ns() - trace->start_ns;

	record += trace->head & (trace->records - 1);
	record->word[0] = ns << 12 | flags;
	record->word[1] = page << 12 | (tid & 0xfff);
	record->word[2] = (u64)tid >> 12 << 48 | (ip & GENMASK_ULL(47, 0));
	trace->head++;
	/* Pairs with the reader's load: what head counts has been written. */
	smp_store_release(&trace->ring->head, trace->head);
}

/* What the reader says of @tail is believed only as far as it can harm itself. */
static u64 ring_used(struct page_trace *trace)
{
	return trace->head - READ_ONCE(trace->ring->tail);
}

/*
 * Add a record. False: there was no room. Interrupts are off. The time is
 * taken with the lock held, so that records are in order of time.
 */
bool page_trace_record(struct page_trace *trace, unsigned int flags, u64 page,
		       pid_t tid, unsigned long ip)
{
	bool visit = flags >> 8 == PAGE_TRACE_T_VISIT;
	unsigned int unreported;
	bool room = false;
	u64 used;

	if (!raw_spin_trylock(&trace->ring_lock)) {
		if (in_nmi()) {
			if (visit)
				atomic_inc(&trace->unreported);
			return false;
		}
		raw_spin_lock(&trace->ring_lock);
	}

	used = ring_used(trace);
	unreported = atomic_read(&trace->unreported);
	if (used + !!unreported < trace->records) {
		if (unreported) {
			atomic_sub(unreported, &trace->unreported);
			put_record(trace, PAGE_TRACE_TYPE(LOST), unreported,
				   tid, 0);
		}
		put_record(trace, flags, page, tid, ip);
		room = true;
	} else if (visit) {
		atomic_inc(&trace->unreported);
	} else {
		trace->other_lost++;
	}
	if (used >= trace->records / 4 && trace->head >= trace->next_wake) {
		trace->next_wake = trace->head + trace->records / 4;
		irq_work_queue(&trace->wake);
	}
	raw_spin_unlock(&trace->ring_lock);
	return room;
}

static void page_trace_wake(struct irq_work *work)
{
	struct page_trace *trace = container_of(work, struct page_trace, wake);

	wake_up_interruptible(&trace->wait);
}

/* -- counts ------------------------------------------------------------------- */

static void add_stats(struct page_trace_stats *sum,
		      const struct page_trace_stats *stats)
{
	const u64 *from = (const u64 *)stats;
	u64 *to = (u64 *)sum;
	unsigned int i;

	for (i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

static void read_stats(struct page_trace *trace, struct page_trace_stats *stats)
{
	struct page_trace_task *pt;

	raw_spin_lock_irq(&page_trace_lock);
	*stats = trace->gone;
	list_for_each_entry(pt, &trace->tasks, list) {
		raw_spin_lock(&pt->lock);
		add_stats(stats, &pt->stats);
		raw_spin_unlock(&pt->lock);
		stats->live++;
	}
	raw_spin_lock(&trace->ring_lock);
	stats->other_lost = trace->other_lost;
	raw_spin_unlock(&trace->ring_lock);
	raw_spin_unlock_irq(&page_trace_lock);
}

/* -- tasks -------------------------------------------------------------------- */

/* page_trace_lock; @task is current, has not run yet, or is reloaded later. */
void page_trace_attach(struct page_trace *trace, struct page_trace_task *pt,
		       struct task_struct *task, pid_t parent)
{
	pt->trace = trace;
	pt->task = task;
	pt->tid = task_pid_nr_ns(task, trace->ns);
	page_trace_bind(pt, task->mm);
	list_add_tail(&pt->list, &trace->tasks);
	trace->gone.tasks++;
	/* Threads can end before the start has found all of them. */
	WRITE_ONCE(trace->ring->ended, 0);
	page_trace_record(trace, PAGE_TRACE_TYPE(TASK), parent, pt->tid, 0);
	WRITE_ONCE(task->page_trace, pt);
}

/* page_trace_lock; @pt may be loaded until every CPU was reloaded. */
void page_trace_detach(struct page_trace_task *pt)
{
	struct page_trace *trace = pt->trace;

	WRITE_ONCE(pt->task->page_trace, NULL);
	list_del_init(&pt->list);
	page_trace_bind(pt, NULL);
	page_trace_record(trace, PAGE_TRACE_TYPE(EXIT), 0, pt->tid, 0);
	add_stats(&trace->gone, &pt->stats);
	if (list_empty(&trace->tasks)) {
		WRITE_ONCE(trace->ring->ended, 1);
		irq_work_queue(&trace->wake);
	}
}

/* The trace that a child of current belongs to, or NULL; page_trace_lock. */
static struct page_trace *childs_trace(unsigned long clone_flags)
{
	struct page_trace_task *parent = current->page_trace;

	if (!parent || !((clone_flags & CLONE_THREAD) ||
			 (parent->trace->flags & PAGE_TRACE_FOLLOW)))
		return NULL;
	return parent->trace;
}

void __page_trace_fork(struct task_struct *child, unsigned long clone_flags)
{
	struct page_trace_task *pt;
	struct page_trace *trace;

	raw_spin_lock_irq(&page_trace_lock);
	trace = childs_trace(clone_flags);
	raw_spin_unlock_irq(&page_trace_lock);
	if (!trace)
		return;
	pt = page_trace_alloc();

	raw_spin_lock_irq(&page_trace_lock);
	trace = childs_trace(clone_flags);
	/* A start that is under way may have found @child already. */
	if (trace && !child->page_trace && pt) {
		page_trace_attach(trace, pt, child, current->page_trace->tid);
		pt = NULL;
	} else if (trace && (!child->page_trace ||
			     child->page_trace->trace != trace)) {
		trace->gone.unfit++;
	}
	raw_spin_unlock_irq(&page_trace_lock);
	if (pt)
		page_trace_free(pt);
}

void __page_trace_exec(struct mm_struct *old_mm)
{
	struct page_trace_task *pt;

	raw_spin_lock_irq(&page_trace_lock);
	pt = current->page_trace;
	if (pt) {
		page_trace_bind(pt, current->mm);
		page_trace_reload(NULL);
		/* It has taken over the leader's number, if another led. */
		pt->tid = task_pid_nr_ns(current, pt->trace->ns);
		page_trace_record(pt->trace, PAGE_TRACE_TYPE(EXEC), 0, pt->tid, 0);
	}
	raw_spin_unlock_irq(&page_trace_lock);
}

bool __page_trace_unsafe(void)
{
	bool unsafe;

	raw_spin_lock_irq(&page_trace_lock);
	unsafe = current->page_trace && !current->page_trace->trace->privileged;
	raw_spin_unlock_irq(&page_trace_lock);
	return unsafe;
}

void __page_trace_exit(void)
{
	struct page_trace_task *pt;

	raw_spin_lock_irq(&page_trace_lock);
	pt = current->page_trace;
	if (pt) {
		page_trace_detach(pt);
		page_trace_reload(NULL);
	}
	raw_spin_unlock_irq(&page_trace_lock);
	if (pt)
		page_trace_free(pt);
}

/* Whether threads of @leader's process are traced: then all are, by one trace. */
static bool is_traced(struct task_struct *leader)
{
	struct task_struct *task;
	bool traced = false;

	rcu_read_lock();
	for_each_thread(leader, task)
		traced |= !!READ_ONCE(task->page_trace);
	rcu_read_unlock();
	return traced;
}

/* A thread of @leader's process that is not traced yet, with a reference. */
static struct task_struct *next_untraced(struct task_struct *leader)
{
	struct task_struct *task, *found = NULL;

	rcu_read_lock();
	for_each_thread(leader, task) {
		if (!READ_ONCE(task->page_trace) && READ_ONCE(task->mm) &&
		    !(READ_ONCE(task->flags) & PF_EXITING)) {
			found = task;
			get_task_struct(found);
			break;
		}
	}
	rcu_read_unlock();
	return found;
}

/*
 * Threads that are cloned meanwhile are found by the next round, or attached
 * by a parent that is traced already.
 */
static int attach_threads(struct page_trace *trace, struct task_struct *leader,
			  struct mm_struct *mm)
{
	struct task_struct *task;

	while ((task = next_untraced(leader))) {
		struct page_trace_task *pt = page_trace_alloc();

		if (!pt) {
			put_task_struct(task);
			return -ENOMEM;
		}
		raw_spin_lock_irq(&page_trace_lock);
		/* An exiting task comes to page_trace_exit() after this or never. */
		if (!task->page_trace && task->mm == mm &&
		    !(task->flags & PF_EXITING)) {
			page_trace_attach(trace, pt, task, 0);
			pt = NULL;
		}
		raw_spin_unlock_irq(&page_trace_lock);
		put_task_struct(task);
		if (pt)
			page_trace_free(pt);
		cond_resched();
	}
	on_each_cpu(page_trace_reload, NULL, 1);
	return 0;
}

/* -- start and stop ----------------------------------------------------------- */

static bool mm_is_shared(struct task_struct *leader, struct mm_struct *mm)
{
	struct task_struct *process, *thread;
	bool shared = false;

	rcu_read_lock();
	for_each_process_thread(process, thread) {
		if (thread->mm == mm && !same_thread_group(thread, leader) &&
		    !(thread->flags & PF_KTHREAD)) {
			shared = true;
			goto out;
		}
	}
out:
	rcu_read_unlock();
	return shared;
}

/*
 * May @task be traced? Its mm cannot change: exec_update_lock is held. With a
 * reference to that in *@mmp, since @task may exit before its threads.
 */
static int check_target(struct task_struct *task, struct mm_struct **mmp)
{
	struct mm_struct *mm;
	int ret = 0;

	if (task->flags & PF_KTHREAD)
		return -EPERM;
	if (same_thread_group(task, current))
		return -EDEADLK;
	if (!ptrace_may_access(task, PTRACE_MODE_ATTACH_REALCREDS))
		return -EPERM;
	mm = get_task_mm(task);
	if (!mm)
		return -ESRCH;
	if (task->personality & READ_IMPLIES_EXEC || mm_is_shared(task, mm))
		ret = -EOPNOTSUPP;
#ifdef CONFIG_MODIFY_LDT_SYSCALL
	if (cpu_feature_enabled(X86_FEATURE_PTI) && mm->context.ldt)
		ret = -EOPNOTSUPP;
#endif
	if (ret)
		mmput(mm);
	else
		*mmp = mm;
	return ret;
}

static void page_trace_stop(struct page_trace *trace)
{
	struct page_trace_task *pt, *next;
	LIST_HEAD(stopped);

	lockdep_assert_held(&page_trace_mutex);
	if (!trace->running)
		return;
	trace->running = false;

	raw_spin_lock_irq(&page_trace_lock);
	list_for_each_entry_safe(pt, next, &trace->tasks, list) {
		page_trace_detach(pt);
		list_add(&pt->list, &stopped);
	}
	raw_spin_unlock_irq(&page_trace_lock);

	on_each_cpu(page_trace_reload, NULL, 1);
	list_for_each_entry_safe(pt, next, &stopped, list)
		page_trace_free(pt);
	if (!--page_trace_running)
		schedule_delayed_work(&page_trace_key_work, HZ);
}

static long page_trace_start(struct page_trace *trace,
			     const struct page_trace_start *start)
{
	struct task_struct *task;
	struct mm_struct *mm;
	size_t size;
	long ret;

	if (start->window < 1 || start->window > PAGE_TRACE_MAX_WINDOW ||
	    start->flags & ~(PAGE_TRACE_FOLLOW | PAGE_TRACE_CODE | PAGE_TRACE_WROTE) ||
	    start->records < MIN_RECORDS || start->records > MAX_RECORDS ||
	    !is_power_of_2(start->records) || trace->started)
		return -EINVAL;
	/* Without it, code and data look the same. */
	if (!boot_cpu_has(X86_FEATURE_NX))
		return -ENODEV;

	rcu_read_lock();
	task = start->pid > 0 ? find_task_by_vpid(start->pid) : NULL;
	if (task)
		task = get_task_struct(task->group_leader);
	rcu_read_unlock();
	if (!task)
		return -ESRCH;

	/* Not between an exec's look at who traces it and its new rights. */
	ret = mutex_lock_killable(&task->signal->cred_guard_mutex);
	if (ret)
		goto out_task;
	ret = down_read_killable(&task->signal->exec_update_lock);
	if (ret)
		goto out_guard;
	ret = check_target(task, &mm);
	if (ret)
		goto out_unlock;
	ret = -EBUSY;
	if (is_traced(task))
		goto out_mm;

	ret = -ENOMEM;
	size = RING_OFFSET +
	       PAGE_ALIGN(start->records * sizeof(struct page_trace_record));
	trace->ring = vmalloc_user(size);
	if (!trace->ring)
		goto out_mm;
	trace->ring->records = start->records;
	trace->ring->offset = RING_OFFSET;
	trace->records = start->records;
	trace->next_wake = 0;
	trace->window = start->window;
	trace->flags = start->flags;
	trace->privileged = capable(CAP_SYS_PTRACE);
	trace->ns = get_pid_ns(task_active_pid_ns(current));
	trace->start_ns = ktime_get_mono_fast_ns();
	/* Pairs with page_trace_mmap() and page_trace_poll(): the ring is there. */
	smp_store_release(&trace->started, true);

	trace->running = true;
	/* Still on since the last trace? */
	if (!page_trace_running++ &&
	    !cancel_delayed_work_sync(&page_trace_key_work))
		static_branch_inc(&page_trace_key);
	ret = attach_threads(trace, task, mm);
	if (!ret && !trace->gone.tasks)
		ret = -ESRCH;
	if (ret)
		page_trace_stop(trace);
out_mm:
	mmput(mm);
out_unlock:
	up_read(&task->signal->exec_update_lock);
out_guard:
	mutex_unlock(&task->signal->cred_guard_mutex);
out_task:
	put_task_struct(task);
	return ret;
}

/* -- the device --------------------------------------------------------------- */

static int page_trace_open(struct inode *inode, struct file *file)
{
	struct page_trace *trace = kzalloc(sizeof(*trace), GFP_KERNEL);

	if (!trace)
		return -ENOMEM;
	INIT_LIST_HEAD(&trace->tasks);
	raw_spin_lock_init(&trace->ring_lock);
	init_waitqueue_head(&trace->wait);
	init_irq_work(&trace->wake, page_trace_wake);
	file->private_data = trace;
	return nonseekable_open(inode, file);
}

static int page_trace_release(struct inode *inode, struct file *file)
{
	struct page_trace *trace = file->private_data;

	mutex_lock(&page_trace_mutex);
	page_trace_stop(trace);
	mutex_unlock(&page_trace_mutex);
	irq_work_sync(&trace->wake);
	if (trace->ns)
		put_pid_ns(trace->ns);
	vfree(trace->ring);
	kfree(trace);
	return 0;
}

static long page_trace_ioctl(struct file *file, unsigned int cmd,
			     unsigned long arg)
{
	struct page_trace *trace = file->private_data;
	void __user *argp = (void __user *)arg;
	struct page_trace_start start;
	struct page_trace_stats stats;
	long ret = 0;

	switch (cmd) {
	case PAGE_TRACE_START:
		if (copy_from_user(&start, argp, sizeof(start)))
			return -EFAULT;
		if (mutex_lock_killable(&page_trace_mutex))
			return -EINTR;
		ret = page_trace_start(trace, &start);
		mutex_unlock(&page_trace_mutex);
		return ret;
	case PAGE_TRACE_STOP:
		mutex_lock(&page_trace_mutex);
		if (trace->started)
			page_trace_stop(trace);
		else
			ret = -EINVAL;
		mutex_unlock(&page_trace_mutex);
		return ret;
	case PAGE_TRACE_STATS:
		read_stats(trace, &stats);
		return copy_to_user(argp, &stats, sizeof(stats)) ? -EFAULT : 0;
	}
	return -ENOTTY;
}

static int page_trace_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct page_trace *trace = file->private_data;

	/*
	 * Without page_trace_mutex: that is taken outside of exec_update_lock,
	 * and that outside of mmap_lock, which is held here. Once there, the
	 * ring stays until the file is released.
	 */
	if (!smp_load_acquire(&trace->started))
		return -EINVAL;
	vm_flags_set(vma, VM_DONTCOPY | VM_DONTDUMP);
	return remap_vmalloc_range(vma, trace->ring, vma->vm_pgoff);
}

static __poll_t page_trace_poll(struct file *file, poll_table *wait)
{
	struct page_trace *trace = file->private_data;
	__poll_t mask = 0;

	poll_wait(file, &trace->wait, wait);
	/* Pairs with page_trace_start(). */
	if (!smp_load_acquire(&trace->started))
		return EPOLLERR;
	if (READ_ONCE(trace->ring->ended))
		mask |= EPOLLIN | EPOLLHUP;
	raw_spin_lock_irq(&trace->ring_lock);
	if (ring_used(trace) >= trace->records / 4)
		mask |= EPOLLIN;
	raw_spin_unlock_irq(&trace->ring_lock);
	return mask;
}

static const struct file_operations page_trace_fops = {
	.owner		= THIS_MODULE,
	.open		= page_trace_open,
	.release	= page_trace_release,
	.unlocked_ioctl	= page_trace_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.mmap		= page_trace_mmap,
	.poll		= page_trace_poll,
	.llseek		= no_llseek,
};

static struct miscdevice page_trace_device = {
	.minor	= MISC_DYNAMIC_MINOR,
	.name	= "page_trace",
	.fops	= &page_trace_fops,
	.mode	= 0600,
};
builtin_misc_device(page_trace_device);
