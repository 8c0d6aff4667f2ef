/* SPDX-License-Identifier: MIT */
/*
 * As much of a kernel as kernel/locking/lock_trace*.c needs, for threads of a process: a thread is a CPU, and runs one
 * task. Every header that these files include is this one. Per-CPU variables are the thread's, so that they are one
 * instruction away, as in the kernel. There are no interrupts: tests of those are the guest's.
 */
#ifndef USERSPACE_KERNEL_H
#define USERSPACE_KERNEL_H

#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <x86intrin.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;
typedef uint8_t __u8;
typedef uint16_t __u16;
typedef uint32_t __u32;
typedef uint64_t __u64;
typedef off_t loff_t;

#define CONFIG_KREPRO_LOCK_TRACE 1
#define __user
#define __init
#define __percpu
#define __lockfunc
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define noinline __attribute__((noinline))
#define ____cacheline_aligned __attribute__((aligned(64)))
#define ____cacheline_aligned_in_smp ____cacheline_aligned
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define BIT(n) (1UL << (n))
#define BIT_ULL(n) (1ULL << (n))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define GOLDEN_RATIO_32 0x61C88647
#define GOLDEN_RATIO_64 0x61C8864680B583EBull
#define hash_long(value, bits) ((unsigned int)((u64)(value) * GOLDEN_RATIO_64 >> (64 - (bits))))

/* -- memory ------------------------------------------------------------------------------------------------------- */

#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile __typeof__(x) *)&(x) = (value))
#define barrier() __asm__ volatile("" ::: "memory")
#define smp_mb() __asm__ volatile("lock; addl $0,-4(%%rsp)" ::: "memory", "cc")
/* An atomic instruction is one on x86. */
#define smp_mb__after_atomic() barrier()
#define smp_load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_store_release(p, value) __atomic_store_n(p, value, __ATOMIC_RELEASE)
#define cpu_relax() _mm_pause()
#define cmpxchg(p, old, new)								\
({											\
	__typeof__(*(p)) __old = (old);							\
	__atomic_compare_exchange_n(p, &__old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);	\
	__old;										\
})
/* Without the lock prefix, as in the kernel. */
#define cmpxchg_local(p, old, new)							\
({											\
	__typeof__(*(p)) __old = (old);							\
	__asm__ volatile("cmpxchgq %2,%1" : "+a"(__old), "+m"(*(p)) : "r"((__typeof__(*(p)))(new)) : "memory", "cc"); \
	__old;										\
})

typedef struct { long value; } local_t;
#define local_read(p) READ_ONCE((p)->value)
#define local_set(p, n) WRITE_ONCE((p)->value, n)
#define local_add(n, p) __asm__ volatile("addq %1,%0" : "+m"((p)->value) : "er"((long)(n)) : "cc")
#define local_cmpxchg(p, old, new) cmpxchg_local(&(p)->value, old, new)

#define vmalloc(size) aligned_alloc(4096, ((size) + 4095) & ~4095ul)
#define vmalloc_node(size, node) vmalloc(size)
#define vfree(p) free(p)
#define kzalloc(size, flags) calloc(1, size)
#define kfree(p) free(p)
#define copy_to_user(to, from, size) (memcpy(to, from, size), 0)
#define copy_from_user(to, from, size) (memcpy(to, from, size), 0)

/* -- CPUs and tasks ----------------------------------------------------------------------------------------------- */

enum { NR_CPUS = 8 };

/* Of each thread that is a CPU; a per-CPU variable has the same distance from it in all. */
extern char *cpu_bases[NR_CPUS];
extern __thread int this_cpu;
extern __thread char this_base[64];
extern int nr_cpu_ids;

#define DEFINE_PER_CPU(type, name) __thread __typeof__(type) name
#define DECLARE_PER_CPU(type, name) extern __thread __typeof__(type) name
#define this_cpu_ptr(p) (p)
#define this_cpu_read(x) (x)
#define this_cpu_write(x, value) ((x) = (value))
#define this_cpu_add(x, n) __asm__ volatile("addq %1,%0" : "+m"(x) : "er"((long)(n)) : "cc")
#define per_cpu_ptr(p, cpu) ((__typeof__(p))((char *)(p) - this_base + cpu_bases[cpu]))
#define per_cpu(x, cpu) (*per_cpu_ptr(&(x), cpu))
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < nr_cpu_ids; (cpu)++)
#define cpu_possible(cpu) ((int)(cpu) < nr_cpu_ids)
#define raw_smp_processor_id() this_cpu
#define cpu_to_node(cpu) 0
extern __thread int preemptions;
#define preempt_disable() (preemptions++, barrier_after())
#define preempt_enable() (barrier_after(), preemptions--)
#define preempt_disable_notrace() preempt_disable()
#define preempt_enable_notrace() preempt_enable()
static inline int barrier_after(void)
{
	barrier();
	return 0;
}
#define preempt_count() preemptions
#define in_nmi() 0
#define NMI_MASK 0x00f00000
#define HARDIRQ_MASK 0x000f0000
#define SOFTIRQ_OFFSET 0x00000100
#define local_save_flags(flags) ((flags) = __builtin_ia32_readeflags_u64())
#define irqs_disabled_flags(flags) (!((flags) & 0x200))
#define local_irq_save(flags) ((flags) = 0)
#define raw_local_irq_save(flags) local_irq_save(flags)
#define raw_local_irq_restore(flags) local_irq_restore(flags)
#define local_irq_restore(flags) ((void)(flags))

struct task_struct {
	u32 pid;
};
extern __thread struct task_struct current_task;
#define current (&current_task)

#define get_cycles() __rdtsc()

/* -- what only starts, stops and shows ----------------------------------------------------------------------------- */

struct static_key_false { bool on; };
#define DEFINE_STATIC_KEY_FALSE(name) struct static_key_false name
#define DECLARE_STATIC_KEY_FALSE(name) extern struct static_key_false name
#define static_branch_unlikely(key) ((key)->on)
#define static_branch_enable(key) ((key)->on = true)
#define static_branch_disable(key) ((key)->on = false)
#define EXPORT_SYMBOL(name) struct export_##name
#define __setup(text, function)
#define early_initcall(function) __attribute__((unused)) static int (*const initcall_##function)(void) = function
#define device_initcall(function) early_initcall(function)

#define TASK_UNINTERRUPTIBLE 2
#define wait_on_bit_lock(word, bit, mode) ((void)(word))
#define clear_and_wake_up_bit(bit, word) ((void)(word))
struct work_struct { int none; };
#define DECLARE_DELAYED_WORK(name, function) __attribute__((unused)) void (*const name)(struct work_struct *) = function
#define mod_delayed_work(queue, work, delay) ((void)0)
#define HZ 100
/* The threads have ended when the trace ends. */
#define stop_machine(function, data, cpus) ((void)function(data))
#define test_and_set_bit_lock(bit, word) 0
#define clear_bit_unlock(bit, word) ((void)(word))
#define msleep_interruptible(ms) 0
#define signal_pending(task) 0
#define kstrtobool(text, to) (*(to) = true, 0)
#define GFP_KERNEL 0
#define THIS_MODULE NULL
#define MISC_DYNAMIC_MINOR 0
#define misc_register(device) ((void)(device), 0)
struct inode;
struct file { unsigned int f_flags; };
#define O_NONBLOCK 04000
struct file_operations {
	void *owner;
	ssize_t (*read)(struct file *, char *, size_t, loff_t *);
	long (*unlocked_ioctl)(struct file *, unsigned int, unsigned long);
	long (*compat_ioctl)(struct file *, unsigned int, unsigned long);
	int (*release)(struct inode *, struct file *);
	void *llseek;
};
#define compat_ptr_ioctl NULL
#define noop_llseek NULL
struct miscdevice { int minor; const char *name; const struct file_operations *fops; int mode; };

struct seq_file;
struct seq_operations {
	void *(*start)(struct seq_file *, loff_t *);
	void *(*next)(struct seq_file *, void *, loff_t *);
	void (*stop)(struct seq_file *, void *);
	int (*show)(struct seq_file *, void *);
};
#define SEQ_START_TOKEN ((void *)1)
#define seq_puts(m, text) ((void)(m))
static inline void seq_printf(struct seq_file *m, const char *format, ...)
{
	(void)m;
	(void)format;
}
#define DEFINE_SEQ_ATTRIBUTE(name) __attribute__((unused)) static const int name##_fops
struct dentry;
#define debugfs_create_dir(name, parent) NULL
#define debugfs_create_file(name, mode, folder, data, fops) ((void)(folder), (void)(fops))
#define is_kernel_percpu_address(address) false
#define is_module_percpu_address(address) false
#define is_kernel(address) false
#define is_module_address(address) false
#define object_is_on_stack(p) ((void)(p), false)
#define is_vmalloc_addr(p) ((void)(p), true)
#define kmem_cache_of(...) false

#include <linux/lock_trace.h>

static const u64 tsc_khz = 1000000;

#endif
