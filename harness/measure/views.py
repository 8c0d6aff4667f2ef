# SPDX-License-Identifier: MIT
"""What an analysis may have for other tools: profiles and a time line."""

from __future__ import annotations

from harness.measure.declared import Table, number, string

PROFILES = Table(
    "profiles",
    "a weighted stack",
    (
        string("profile", "the profile that it is of"),
        string("unit", "of the weights of this profile, as speedscope names it"),
        string("stack", "functions, the outermost first, with ; between them"),
        number("weight", "1", "in the profile's unit"),
    ),
)
TIMELINE = Table(
    "timeline",
    "a slice of time, or an instant",
    (
        string("process", "the group of tracks"),
        string("track", "the line that it is on"),
        string("name", "what happened"),
        number("start_s", "s", "when it began"),
        number("duration_s", "s", "how long it took; NaN: an instant"),
    ),
)
VIEWS = (PROFILES, TIMELINE)
#: Their columns, with the types of pandas.
PROFILE_COLUMNS, TIMELINE_COLUMNS = (
    {column.name: "str" if column.type == "string" else column.type for column in table.columns}
    for table in (PROFILES, TIMELINE)
)
