// SPDX-License-Identifier: GPL-2.0-only
/* The guest's init loads every module that it finds: this one goes away again unless it is told to run. */
#include <linux/module.h>

static bool run;
module_param(run, bool, 0444);

#undef module_init
#define module_init(begin)                                                                                             \
	int __init init_module(void)                                                                                   \
	{                                                                                                              \
		return run ? begin() : -ECANCELED;                                                                     \
	}

#include "locking/locktorture.c"
