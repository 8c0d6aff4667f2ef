/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Timers on the virtual clock with a jittered period, one for each mode that looks at the guest at moments of it. */
#ifndef KREPRO_TIMER_H
#define KREPRO_TIMER_H

#include "oracle.h"

/* Why there can be none, or NULL. */
const char *timer_lacks(const struct settings *settings);
/* Have `at` called at moments that are `mean_ns` apart on average; those of two streams are independent. */
void timer_add(const struct settings *settings, unsigned int stream, uint64_t mean_ns, void (*at)(int64_t now_ns));
/* At the first mark. */
void timer_start(void);

#endif
