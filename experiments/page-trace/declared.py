# SPDX-License-Identifier: MIT
"""The tables of page-trace's decoders: their columns, types, units and meanings."""

from __future__ import annotations

from harness.measure.declared import KEY, Column, Table, columns_of, count, flag, number, string
from harness.measure.units import Unit

from .advised import Run as AdvisedRun
from .programs import Run
from .trace.stats import TraceStats


def _whole(name: str, unit: Unit, meaning: str) -> Column:
    return Column(name, "int64", unit, meaning)


def _word(name: str, meaning: str) -> Column:
    return Column(name, "uint64", "1", meaning)


#: The kernel's counts of one trace, and what they say together with its file.
COUNTS = (
    *columns_of(TraceStats),
    count("file_records", "visits that the trace's file holds"),
    count("unaccounted", "faults less all kinds of them"),
    count("cut", "visits that the file had no room for"),
)

RUNS = Table(
    "runs",
    "one program that a trial ran by the arm's method",
    (
        *KEY,
        string("method", "plain, stock, trace, packed, stream, lackey, lackey-data, faults, soft-dirty or damon"),
        number("seconds", "s", "from start to end, by the guest's clock; of a trace without starter_ns"),
        number(
            "bytes",
            "B",
            "of data that the method gave: by lackey-data of its lines of data, of a trace that is not packed of the "
            "program's own records; NaN: plain and stock give none",
        ),
        *columns_of(Run),
        string("output", "SHA-256 of what it printed; null: the file could not be read"),
    ),
)
TRACES = Table(
    "traces",
    "one traced program: the kernel's counts, and the trace's file beside them",
    (
        *KEY,
        *COUNTS,
        count("visits", "of the program itself, from its exec on, that the file holds"),
        count("several", "instructions of the program itself that needed several data pages at once"),
        count("before_visits", "of the launcher's child and the starter roi-exec, before the program's exec"),
        number("starter_ns", "ns", "what the starter took, from its own exec to the program's; 0: there was none"),
        count("file_bytes", "of the file"),
    ),
)
COMPARISONS = Table(
    "comparisons",
    "one traced program beside the oracle's exact sequence; visits are of data pages, repeats collapsed",
    (
        *KEY,
        count("oracle", "visits of the oracle's sequence"),
        count("trace", "visits of the trace"),
        count("missing", "visits of the oracle's that the trace has not"),
        count("extra", "visits of the trace that the oracle has not"),
        count("unexplained", "missing and extra visits of class unknown"),
        count("explained", "missing and extra visits of all other classes"),
        count("left_out", "the oracle's accesses (runs) of pages that the guest maps as code: compared with nothing"),
        count("runs", "the oracle's accesses (runs) in all"),
        count("code_unmapped", "pages that the trace calls code and the guest's maps do not"),
    ),
)
DIFFERENCES = Table(
    "differences",
    "one class of differences of one comparison; a row of 0 where there is none of the class",
    (
        *KEY,
        string("class", "boundary, kernel, string or unknown; the README says what they are"),
        count("differences", "places at which the sequences differ"),
        count("missing", "visits that the trace has not, there"),
        count("extra", "visits that the oracle has not, there"),
    ),
)
KNOWN = Table(
    "known",
    "one case of pageknown: a program that says which pages it touches in which order; and Debian's dd, which does not",
    (
        *KEY,
        string("case", "its name"),
        count("visits", "visits that it says it makes; of debian-dd those by hand"),
        count("seen", "visits to the same pages that the trace has"),
        number("by_hand", "count", "visits that a person counted (hand.py); NaN: nobody did"),
        flag("exact", "whether the trace has these and no others"),
        string("wrong", "how the trace differs; null: it does not"),
        flag("said_exact", "whether the launcher says that the trace is exact"),
        *COUNTS,
    ),
)
SECOND = Table(
    "second",
    "one case of pageknown by another instrument: valgrind's lackey, which translates the program's code",
    (
        *KEY,
        string("case", "its name"),
        count("visits", "visits that its lines make"),
        number("by_hand", "count", "visits that a person counted (hand.py); NaN: nobody did"),
        flag("exact", "whether they are those that the program says it makes"),
        string("wrong", "how they differ; null: they do not"),
    ),
)
NEIGHBOUR = Table(
    "neighbour",
    "one trial: another process's speed, with an untraced and a traced program beside it in turn",
    (
        *KEY,
        count("pairs", "pairs of segments, one of each, in which both programs ran through"),
        number("alone", "count/s", "chunks of work beside the untraced program, median of segments"),
        number("beside", "count/s", "the same beside the traced one"),
        number("slowdown", "1", "median over pairs of the ratio of the segments' times, less 1"),
        number("slowdown_low", "1", "begin of its 95 % interval over the pairs; NaN: too few pairs"),
        number("slowdown_high", "1", "its end"),
        number("slowdown_fastest", "1", "median over pairs of the ratio of the fastest tenths' times, less 1"),
    ),
)
ADVISED = Table(
    "advised",
    "one program that memory was short for, from where it went on after it had been put aside, or from its start",
    (
        *KEY,
        string(
            "advice", "none; everything: all its memory fetched ahead; order: as in its trace; followed: see README"
        ),
        number("seconds", "s", "until its end, by the guest's clock"),
        *columns_of(AdvisedRun),
        string("output", "SHA-256 of what it printed"),
    ),
)
SAID = Table(
    "said",
    "one piece of advice that the report gives on the trace of a program whose advice is followed",
    (
        *KEY,
        string("kind", "order, keep, drop, prefetch, pack or place; none: there is no advice"),
        string("subject", "the memory that it is about"),
        flag("largest", "that has more pages than any other"),
        number("share", "1", "of all visits, those that it is about"),
        string("text", "as the report has it"),
    ),
)
TRACER = Table(
    "tracer",
    "one trial of a trace: what the tracer itself takes, by a program of known visits (workload cost)",
    (
        *KEY,
        number("plain_ns", "ns", "for a visit whose next one is by another instruction"),
        number("again_ns", "ns", "for a visit whose next one is by the same instruction, at another time"),
        number("second_ns", "ns", "for a visit after which the instruction goes on to another page"),
        number("stepped_ns", "ns", "for a visit after which an instruction of several pages is done"),
        number("access_ns", "ns", "what an access of the known program takes"),
    ),
)
DWELLS = Table(
    "dwells",
    "one traced program beside the same program undisturbed; errors are medians over visits of 100 accesses and more, "
    "NaN with fewer than 10 of these",
    (
        *KEY,
        count("visits", "visits to data pages of the undisturbed program"),
        count("compared", "of these, visits whose duration is known on both sides"),
        count("long", "of these, visits of 100 accesses and more"),
        number("traced_error", "1", "of the duration as traced"),
        number("dwell_error", "1", "of the duration less the tracer's own time"),
        number("count_error", "1", "of the accesses, estimated from that by what the known program's accesses take"),
        number("count_error_own", "1", "of the accesses, estimated by the program's own mean time per access"),
        number("short_ns", "ns", "error of the duration of visits of fewer accesses, median; NaN: there is none"),
        number("short_accesses", "count", "error of their accesses, median; NaN: there is none"),
        number("own_access_ns", "ns", "the undisturbed program's time per access"),
        number("time_error", "1", "of the whole program's time, less the tracer's own; NaN: it made no visit"),
    ),
)
PAGES = Table(
    "pages",
    "one page that a program of the arm traced touched, from its exec on",
    (
        *KEY,
        _word("page", "its number, address >> 12"),
        count("visits", "to it"),
        count("writes", "visits that begin with a write"),
        count("kernel", "visits that begin with an access by the kernel"),
        _whole("dwell_ns", "ns", "time of all visits whose end is known"),
        number("dwell_mean_ns", "ns", "mean of these; NaN: no end is known"),
        _whole("dwell_max_ns", "ns", "longest of these"),
        _whole("first_ns", "ns", "begin of the first visit, since the exec"),
        _whole("last_ns", "ns", "begin of the last visit, since the exec"),
    ),
)
CURVE = Table(
    "curve",
    "the mean working set of one program at one tau",
    (
        *KEY,
        _whole("tau_ns", "ns", "a page is in the working set for so long after its last use"),
        number("mean_pages", "count", "pages in it, mean over time; NaN: the program made no visit"),
        number("missed", "1", "share of visits whose page is not in it, first visits included; NaN: no visit"),
    ),
)
WORKINGSET = Table(
    "workingset",
    "the working set of one program at the end of one interval",
    (
        *KEY,
        _whole("tau_ns", "ns", "as in curve; the shorter one is the interval's length"),
        _whole("end_ns", "ns", "end of the interval, since the exec"),
        count("pages", "in the working set then"),
    ),
)
REUSE = Table(
    "reuse",
    "visits of one program whose reuse distance lies in [low, high)",
    (
        *KEY,
        count("low", "other pages visited since the page's last visit, at least; -1: first visits"),
        count("high", "and less than so many; -1: first visits"),
        count("visits", "with such a distance"),
        number("missed", "1", "share of all visits that a memory of `low` pages (LRU) would miss; NaN: no visit"),
    ),
)
KINDS = Table(
    "kinds",
    "visits of one program by what a table of strides per instruction foresees",
    (
        *KEY,
        string("kind", "irregular: not foreseen; fixed: the same page; sequential: the next one; strided: farther"),
        count("visits", "of the kind"),
        number("share", "1", "of all visits; NaN: there is none"),
    ),
)
ADVICE = Table(
    "advice",
    "what prefetch advice from one program's strides would be worth, so many visits ahead",
    (
        *KEY,
        count("ahead", "visits of the same instruction between the advice and the visit"),
        count("given", "advices: one at each visit in a stream"),
        count("right", "of these, followed by a visit to the page"),
        number("accuracy", "1", "right of given; NaN: none was given"),
        number("coverage", "1", "right of all visits; NaN: there is none"),
        number("cold_coverage", "1", "first visits of pages that were foreseen; NaN: there is none"),
        number("lead_visits", "count", "visits between the advice and the visit, mean; NaN: none was right"),
        number("lead_ns", "ns", "time between them, mean; NaN: none was right"),
    ),
)
STREAMS = Table(
    "streams",
    "one stream: an instruction that goes the same distance again and again; the longest 200 of a program",
    (
        *KEY,
        _word("ip", "the instruction's address"),
        _word("base", "page of its first visit"),
        _whole("stride", "count", "pages from one visit to the next"),
        count("length", "visits"),
        _whole("end_ns", "ns", "begin of the last visit, since the exec"),
    ),
)
TRANSITIONS = Table(
    "transitions",
    "one pair of pages visited one after the other; the most frequent 200 of a program",
    (
        *KEY,
        _word("page", "the one that is left"),
        _word("next", "the one that follows"),
        count("count", "times"),
        number("share", "1", "of all transitions from the page"),
    ),
)
MAP = Table(
    "map",
    "one cell of the access model: an interval of time and a group of pages; of each program's first trial",
    (
        *KEY,
        _whole("start_ns", "ns", "begin of the interval, since the exec"),
        _whole("interval_ns", "ns", "its length"),
        _word("page", "the group's first page"),
        count("pages", "that a group has"),
        count("visits", "in the cell"),
        count("writes", "of these, visits that begin with a write"),
    ),
)
VISITS = Table(
    "visits",
    "one visit: the first 20,000 of each program's first trial",
    (
        *KEY,
        _whole("start_ns", "ns", "its begin, since the exec"),
        number("dwell_ns", "ns", "how long it lasted; NaN: its end is not known"),
        _word("page", "address >> 12"),
        flag("write", "it begins with a write"),
        flag("kernel", "it begins with an access by the kernel"),
        _whole("tid", "1", "the thread"),
    ),
)
#: What the traces of one arm say of the programs.
MODEL = (PAGES, CURVE, WORKINGSET, REUSE, KINDS, ADVICE, STREAMS, TRANSITIONS, MAP, VISITS)
TABLES = [RUNS, TRACES, COMPARISONS, DIFFERENCES, KNOWN, SECOND, NEIGHBOUR, ADVISED, SAID, TRACER, DWELLS, *MODEL]
