/* SPDX-License-Identifier: GPL-2.0 */
/* Sysctls of profilers: what of them differs by version. */
#ifndef _LINUX_PROFILE_SYSCTL_H
#define _LINUX_PROFILE_SYSCTL_H

#include <linux/sysctl.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
/* What a handler is given, and what ends a table: its size is known. */
#define profile_ctl_table	const struct ctl_table
#define PROFILE_CTL_END
#else
#define profile_ctl_table	struct ctl_table
#define PROFILE_CTL_END		{ }
#endif

#endif /* _LINUX_PROFILE_SYSCTL_H */
