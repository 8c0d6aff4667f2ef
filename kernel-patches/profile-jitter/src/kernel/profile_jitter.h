/* SPDX-License-Identifier: GPL-2.0 */
/* What the jittered samples call that has another name in other versions. */
#ifndef _KERNEL_PROFILE_JITTER_H
#define _KERNEL_PROFILE_JITTER_H

#include <linux/hrtimer.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#endif /* _KERNEL_PROFILE_JITTER_H */
