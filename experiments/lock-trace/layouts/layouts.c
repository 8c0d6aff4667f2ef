// SPDX-License-Identifier: GPL-2.0-only
/*
 * What lies where in the kernel's structs: read from this module's debug
 * information, for the kernel that it is built for. It is not loaded.
 *
 * A pointer's name says what has that type: slab__CACHE an object of the slab
 * cache, variable__NAME a variable, made_by__FUNCTION what the function
 * allocates from a general cache.
 */
/* It is never loaded: what is for code that is built in alone, as fs/proc/internal.h from 7.3 on, may be here, too. */
#undef MODULE
#include <linux/proc_fs.h>
#define MODULE

#include <linux/backing-dev.h>
#include <linux/blkdev.h>
#include <linux/buffer_head.h>
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/fs_struct.h>
#include <linux/fsnotify_backend.h>
#include <linux/iocontext.h>
#include <linux/kernfs.h>
#include <linux/mm_types.h>
#include <linux/mmu_context.h>
#include <linux/mmzone.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/perf_event.h>
#include <linux/pid.h>
#include <linux/pipe_fs_i.h>
#include <linux/rmap.h>
#include <linux/sched.h>
#include <linux/sched/cputime.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/shmem_fs.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <linux/tty.h>
#include <linux/udp.h>
#include <linux/user_namespace.h>
#include <net/af_unix.h>
#include <net/raw.h>
#include <net/sock.h>

#include "fs/mount.h"
#include "fs/proc/internal.h"
#include "kernel/rcu/rcu.h"
#include "kernel/rcu/tree.h"
#include "kernel/sched/sched.h"

#define SLAB(cache, type)	type *slab__##cache
#define VARIABLE(name, type)	type *variable__##name
#define MADE_BY(function, type)	type *made_by__##function

SLAB(RAW, struct raw_sock);
SLAB(TCP, struct tcp_sock);
SLAB(UDP, struct udp_sock);
SLAB(UNIX, struct unix_sock);
SLAB(UNIX_STREAM, struct unix_sock);
SLAB(anon_vma, struct anon_vma);
SLAB(blkdev_ioc, struct io_context);
SLAB(buffer_head, struct buffer_head);
SLAB(dentry, struct dentry);
SLAB(file_lock_ctx, struct file_lock_context);
SLAB(files_cache, struct files_struct);
SLAB(filp, struct file);
SLAB(fs_cache, struct fs_struct);
SLAB(fsnotify_mark_connector, struct fsnotify_mark_connector);
SLAB(inode_cache, struct inode);
SLAB(inotify_inode_mark, struct fsnotify_mark);
SLAB(kernfs_node_cache, struct kernfs_node);
SLAB(mm_struct, struct mm_struct);
SLAB(mnt_cache, struct mount);
SLAB(perf_event, struct perf_event);
SLAB(pid, struct pid);
SLAB(proc_dir_entry, struct proc_dir_entry);
SLAB(proc_inode_cache, struct proc_inode);
SLAB(request_queue, struct request_queue);
SLAB(request_queue_srcu, struct request_queue);
SLAB(seq_file, struct seq_file);
SLAB(shmem_inode_cache, struct shmem_inode_info);
SLAB(sighand_cache, struct sighand_struct);
SLAB(signal_cache, struct signal_struct);
SLAB(sock_inode_cache, struct socket_alloc);
SLAB(task_struct, struct task_struct);
SLAB(vm_area_struct, struct vm_area_struct);

VARIABLE(contig_page_data, struct pglist_data);
VARIABLE(init_files, struct files_struct);
VARIABLE(init_fs, struct fs_struct);
VARIABLE(init_mm, struct mm_struct);
VARIABLE(init_sighand, struct sighand_struct);
VARIABLE(init_signals, struct signal_struct);
VARIABLE(init_task, struct task_struct);
VARIABLE(init_user_ns, struct user_namespace);
VARIABLE(rcu_data, struct rcu_data);
VARIABLE(rcu_state, struct rcu_state);
VARIABLE(runqueues, struct rq);

MADE_BY(alloc_pipe_info, struct pipe_inode_info);
MADE_BY(alloc_super, struct super_block);
MADE_BY(alloc_tty_struct, struct tty_struct);

MODULE_DESCRIPTION("What lies where in the kernel's structs");
MODULE_LICENSE("GPL");
