// SPDX-License-Identifier: MIT
#include "krepro.h"

void sleep_ns(uint64_t ns)
{
	struct timespec left = { .tv_sec = (time_t)(ns / NSEC_PER_SEC), .tv_nsec = (long)(ns % NSEC_PER_SEC) };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}
