/* SPDX-License-Identifier: MIT */
/*
 * Marks for the oracle: 7-byte nops that it knows by their displacement, and that do nothing without it.
 * The kinds and operations are those of harness/oracle/plugin/oracle.h.
 */
#ifndef KREPRO_ROI_H
#define KREPRO_ROI_H

#define ROI_MARK(kind, operation) \
	".byte 0x0f, 0x1f, 0x80, " #operation ", " #kind ", 0x72, 0x6b\n\t"
#define ROI(kind, operation) __asm__ volatile(ROI_MARK(kind, operation) : : : "memory")

/* The workload: begun and ended by krepro-workload. A lap: a part of it that the guest program chooses. */
#define roi_begin()	 ROI(0, 0)
#define roi_end()	 ROI(0, 1)
#define roi_lap_begin()	 ROI(2, 0)
#define roi_lap_end()	 ROI(2, 1)
/* From here on the data pages that this process touches are recorded. */
#define roi_select()	 ROI(0, 2)
#define roi_deselect()	 ROI(0, 3)
/* From its next exec on, and until it ends. */
#define roi_select_exec() ROI(0, 4)
/* How long the host ran each CPU and let it wait, into the memory of krepro-counter.h. */
#define roi_host()	 ROI(0, 5)

#endif
