/* SPDX-License-Identifier: MIT */
/* The command's mappings at its end, and those of its children: they stop there for the launcher, as for a debugger. */
#ifndef MAPS_H
#define MAPS_H

#include "krepro.h"

/* The process is to stop at its end, and its mappings go to `path`; those of its child PID to `path`.PID. */
void maps_watch(pid_t pid, const char *path);
/* It has stopped, as wait4() says: write its mappings if that is its end, and let it go on. */
void maps_stopped(pid_t pid, int wait_status);

#endif
