/* SPDX-License-Identifier: MIT */
/* What the programs of this experiment share. */
#ifndef PAGE_H
#define PAGE_H

#ifndef __x86_64__
#error this program is for x86_64
#endif

#include "krepro.h"

#include <sys/mman.h>

enum { PAGE = 4096, EXIT_WRONG = 3 /* what a program found out is not as it should be */ };

#endif
