# SPDX-License-Identifier: MIT
"""Blocks of a lock, from free to free, and one of them with its waiters on a time line."""

from __future__ import annotations

import numpy as np
import pandas as pd

from harness.measure.views import TIMELINE_COLUMNS


def with_blocks(taken: pd.DataFrame) -> pd.DataFrame:
    """`taken` (a table of acquisitions) with the number of each one's block, `block` int64, in order of lock and time.

    A block is a union of spans that overlap, from the first attempt to the last release. What has no known begin or no
    known end is left out.
    """
    span = taken.assign(first=taken["begin"].fillna(taken["acquired"])).dropna(subset=["first", "end"])
    span = span.sort_values(["lock", "generation", "first"], kind="stable")
    lock = span.groupby(["lock", "generation"], sort=False)
    reached = lock["end"].cummax().groupby([span["lock"], span["generation"]], sort=False).shift()
    begins = ~(span["first"] < reached)
    return span.assign(block=begins.cumsum().astype("int64") - 1).drop(columns="first").reset_index(drop=True)


def block_table(taken: pd.DataFrame) -> pd.DataFrame:
    """A row per block of `with_blocks`: block, lock, begin, end (cycles), acquisitions, waiters (contended), threads,
    chain (the most that held or waited at a time, but for the one that came), in order of `block`.
    """
    table = taken.assign(first=taken["begin"].fillna(taken["acquired"]))
    made = table.groupby("block").agg(
        lock=("lock", "first"),
        begin=("first", "min"),
        end=("end", "max"),
        acquisitions=("lock", "size"),
        waiters=("contended", "sum"),
        threads=("pid", "nunique"),
        chain=("depth", "max"),
    )
    return made.reset_index()


def longest(taken: pd.DataFrame) -> pd.DataFrame:
    """The acquisitions of one block, the one with the longest chain of waiters, and of several the one that took
    longest; empty when nobody waited.
    """
    blocks = block_table(taken)
    blocks = blocks[blocks["waiters"] > 0].assign(took=lambda table: table["end"] - table["begin"])
    if blocks.empty:
        return taken.iloc[:0]
    first = blocks.sort_values(["chain", "took", "block"], ascending=[False, False, True]).iloc[0]
    chosen: pd.DataFrame = taken[taken["block"] == first["block"]].reset_index(drop=True)
    return chosen


def block_slices(block: pd.DataFrame, process: str, cycles_per_second: float, names: pd.Series) -> pd.DataFrame:
    """A block as slices of a time line (TIMELINE_COLUMNS): a track per thread, what it waited and what it held.

    `names`: what each acquisition is called, by the index of `block`.
    """
    if block.empty:
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in TIMELINE_COLUMNS.items()})
    zero = float(np.nanmin(block[["begin", "acquired"]].to_numpy()))
    track = [f"thread {pid}" + (f" ({context})" if context else "") for pid, context in _threads(block)]
    parts = []
    for what, begin, end in (("waits", "begin", "acquired"), ("holds", "acquired", "end")):
        to = block[end].where(~block["abandoned"], block["end"]) if what == "waits" else block[end]
        frame = pd.DataFrame(
            {
                "process": process,
                "track": track,
                "name": [f"{what} {name}" for name in names],
                "start_s": (block[begin] - zero) / cycles_per_second,
                "duration_s": (to - block[begin]) / cycles_per_second,
            }
        )
        parts.append(frame[frame["start_s"].notna() & (frame["duration_s"] > 0)])
    return pd.concat(parts, ignore_index=True).sort_values(["track", "start_s"], kind="stable", ignore_index=True)


def _threads(block: pd.DataFrame) -> list[tuple[int, str]]:
    words = ("", "softirq", "interrupt", "nmi")
    pairs = zip(block["pid"].tolist(), block["context"].tolist(), strict=True)
    return [(pid, words[context]) for pid, context in pairs]
