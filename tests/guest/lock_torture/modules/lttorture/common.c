// SPDX-License-Identifier: GPL-2.0-only
#include "torture.c"
