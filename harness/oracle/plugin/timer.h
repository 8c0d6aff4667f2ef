/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One timer on the virtual clock with a jittered period, for all modes that look at the guest at moments of it. */
#ifndef KREPRO_TIMER_H
#define KREPRO_TIMER_H

#include "oracle.h"

/* Why there can be none, or NULL. */
const char *timer_lacks(const struct settings *settings);
/* Have `at` called at each moment, `mean_ns` apart; 0: at those of another mode, or 10 ms apart if no other asks. */
void timer_add(const struct settings *settings, uint64_t mean_ns, void (*at)(int64_t now_ns));
/* At the first mark. */
void timer_start(void);

#endif
