# SPDX-License-Identifier: MIT
"""The metrics of page-trace: their units, directions and meanings."""

from __future__ import annotations

from harness.measure.declared import fact, timed

_PROGRAM = "program; without one: "
_ERROR = "median error of a visit's {}, of visits of 100 accesses and more, beside the undisturbed program"
METRICS = [
    timed("slowdown", "1", "lower", "time by the method, of the time untraced; same clock, same seed", of="program"),
    timed(
        "off_time", "1", "lower",
        "time untraced, of the time on the kernel without our patches; same clock, same seed", of="program",
    ),
    timed("off_time_all", "1", "lower", "all of a trial's programs together: sum of times, of the sum"),
    timed("off_time_worst", "1", "lower", "the largest of a trial's programs"),
    timed("slowdown_median", "1", "lower", "median of the slowdowns of a trial's programs"),
    fact("bytes", "B", "lower", "data that the method gave", of="program"),
    timed("data_rate", "B/s", "lower", "bytes of the trace by second of the untraced program", of="program"),
    fact("visits", "count", "neither", "visits of the program itself, from its exec on", of="program"),
    fact("lost", "count", "lower", "visits for which the ring had no room", of=f"{_PROGRAM}all of the trial"),
    fact(
        "unrecorded", "count", "lower",
        "visits by the kernel's count less those that the trace's file holds, or says it had no room for, absolute",
        of=f"{_PROGRAM}all of the trial",
    ),
    fact(
        "unaccounted", "count", "lower",
        "faults less the sum of recorded, lost, code, slow, upgrade and spurious ones, absolute",
        of=f"{_PROGRAM}all of the trial",
    ),
    fact(
        "steps", "count", "neither",
        "instructions of the programs themselves that needed several data pages at once, over all programs",
    ),
    fact(
        "same_output", "1", "higher",
        "1: the program printed what it prints untraced, or without advice; without a program: the least of them",
        of=f"{_PROGRAM}all of the trial",
    ),
    fact("exit_status", "1", "neither", "the program's exit status as a shell has it", of="program"),
    timed("time_of_lackey", "1", "lower", "time traced, of the time under lackey; same clock and seed", of="program"),
    fact("bytes_of_lackey", "1", "lower", "bytes of the trace, of those of lackey, same clock and seed", of="program"),
    fact(
        "bytes_of_lackey_data", "1", "lower",
        "bytes of the trace, of those of lackey's lines of data accesses, same clock and seed", of="program",
    ),
    fact(
        "bytes_of_lackey_binary", "1", "lower",
        "bytes of the packed trace, of a word for each of lackey's lines of data accesses, same clock and seed",
        of="program",
    ),
    fact(
        "bytes_of_lackey_packed", "1", "lower",
        "bytes of the packed trace, of those lines packed as differences in LEB128, same clock and seed", of="program",
    ),
    fact(
        "told_share", "1", "higher",
        "records of the method, of the visits that the packed page trace has; same clock and seed", of="program",
    ),
    fact("missing", "count", "lower", "visits of the oracle's that the trace has not", of="program"),
    fact("extra", "count", "lower", "visits of the trace that the oracle has not", of=f"{_PROGRAM}all of the trial"),
    fact(
        "unexplained", "count", "lower",
        "missing and extra visits of class unknown", of=f"{_PROGRAM}all of the trial",
    ),
    fact("explained", "count", "lower", "missing and extra visits of the other classes", of="program"),
    fact(
        "missing_share", "1", "lower",
        "missing visits, of the oracle's", of=f"{_PROGRAM}all visits of the trial together",
    ),
    fact("missing_share_worst", "1", "lower", "missing visits, of the oracle's, of the program that misses most"),
    fact(
        "difference_share", "1", "lower",
        "missing and extra visits of the class, of the oracle's, of the program that has most",
        of="class of differences",
    ),
    fact(
        "left_out_share", "1", "lower",
        "of the oracle's accesses, those of pages that the guest maps as code; of the program that has most",
    ),
    fact("code_unmapped", "count", "lower", "pages that traces call code and the guest's maps do not, of all programs"),
    fact("unfit", "count", "lower", "tasks whose data the kernel could not see, of all programs"),
    fact("dwell_error", "1", "lower", _ERROR.format("duration less the tracer's own time"), of="program"),
    fact("dwell_error_worst", "1", "lower", "the same, of the program that has most"),
    fact("traced_error", "1", "lower", _ERROR.format("duration as traced"), of="program"),
    fact(
        "lined_up_share", "1", "higher",
        "visits of the undisturbed program whose duration is known on both sides, of all to data pages", of="program",
    ),
    fact("lined_up_share_least", "1", "higher", "the same, of the program that has least"),
    fact(
        "count_error", "1", "lower",
        _ERROR.format("accesses by the time that the known program's take"), of="program",
    ),
    fact("count_error_worst", "1", "lower", "the same, of the program that has most"),
    fact(
        "count_error_own", "1", "lower",
        _ERROR.format("accesses by the program's own mean time of one"), of="program",
    ),
    fact("count_error_own_worst", "1", "lower", "the same, of the program that has most"),
    fact(
        "time_error", "1", "lower",
        "of the whole program's time, less the tracer's own, beside the undisturbed one's", of="program",
    ),
    fact("time_error_worst", "1", "lower", "the same, of the program that has most"),
    fact(
        "left_behind", "count", "lower",
        "visits that the kernel saw and the trace's file has not: lost, beyond its bound, or without a reason",
        of="program",
    ),
    fact("visit_time", "ns", "lower", "time of a traced program by visit, where its records stream to the host"),
    fact("visit_time_ratio", "1", "lower", "the same, of that of the shortest such program of the repetition"),
    fact("file_bytes", "B", "lower", "size of such a trace's file"),
    fact("bytes_per_visit", "B", "lower", "bytes of such a trace by visit that it holds"),
    fact("visit_ns", "ns", "lower", "the tracer's own time for a visit whose next one is by another instruction"),
    fact("irregular", "1", "neither", "share of visits that no stride foresees", of="program"),
    fact("advice_coverage", "1", "higher", "visits that advice for the next one foresaw, of all visits", of="program"),
    fact("advice_accuracy", "1", "higher", "right advices for the next visit, of those given", of="program"),
    fact("known_cases", "count", "neither", "known sequences that were traced"),
    fact(
        "hand_right", "count", "higher",
        "cases that a person counted by hand (hand.py) and of which the instrument has as many visits",
    ),
    fact("said_exact", "count", "neither", "known sequences whose trace says that it is exact"),
    fact("second_wrong", "count", "lower", "known sequences of which lackey has others than the program says it makes"),
    fact("known_wrong", "count", "lower", "known sequences that were not recorded exactly"),
    timed(
        "neighbour_slowdown", "1", "lower",
        "how much longer a neighbour's work takes beside a traced program than beside an untraced one, whole segments",
    ),
    timed(
        "neighbour_slowdown_fastest", "1", "lower",
        "the same of the fastest tenth of each segment's chunks: it does not see what slows down the others",
    ),
    fact(
        "advice_said", "1", "higher",
        "1: of the program's largest memory, the report on its trace says what following advice does; else 0",
        of="program",
    ),
    fact("speedup", "1", "higher", "time without advice, of the time with it; same clock and seed", of="program"),
    fact("speedup_median", "1", "higher", "median of the speed-ups of a trial's programs"),
    fact("speedup_least", "1", "higher", "the least of them"),
    fact("fewer_faults", "1", "higher", "major faults without advice, of those with it (0 counts as 1)", of="program"),
    fact("fewer_faults_median", "1", "higher", "median of these of a trial's programs"),
    fact(
        "speedup_over_everything", "1", "higher",
        "time with all memory fetched ahead by address, of the time with advice; same clock and seed", of="program",
    ),
    fact("speedup_over_everything_median", "1", "higher", "median of these of a trial's programs"),
]  # fmt: skip
