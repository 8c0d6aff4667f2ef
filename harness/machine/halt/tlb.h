/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef KREPRO_TLB_H
#define KREPRO_TLB_H

#include "qemu.h"

bool tlb_is_sized(void);

#endif
