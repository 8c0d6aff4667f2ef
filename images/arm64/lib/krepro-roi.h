/* SPDX-License-Identifier: MIT */
/*
 * Marks for the oracle: movn of a number into xzr, which it knows by the number, and which does nothing without it.
 * What each means is said in images/guest/lib/krepro-roi.h.
 */
#ifndef KREPRO_ROI_H
#define KREPRO_ROI_H

#define ROI_MARK(kind, operation) "movn xzr, #0x6b00 + (" #kind " << 4) + " #operation ", lsl #48\n\t"
#define ROI(kind, operation)	  __asm__ volatile(ROI_MARK(kind, operation) : : : "memory")

#define roi_begin()	  ROI(0, 0)
#define roi_end()	  ROI(0, 1)
#define roi_lap_begin()	  ROI(2, 0)
#define roi_lap_end()	  ROI(2, 1)
#define roi_select()	  ROI(0, 2)
#define roi_deselect()	  ROI(0, 3)
#define roi_select_exec() ROI(0, 4)
#define roi_host()	  ROI(0, 5)

#endif
