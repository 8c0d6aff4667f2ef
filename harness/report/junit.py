# SPDX-License-Identifier: MIT
"""JUnit XML, as CI servers read it: one testsuite per experiment, one testcase per thing that was checked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated
from xml.etree import ElementTree

from harness.status import Status
from harness.yamlfile import Strict, about

#: JUnit's words for ours.
_TAGS: dict[Status, str] = {"news": "failure", "failed": "error", "absent": "skipped", "untried": "skipped"}
#: What XML 1.0 cannot hold, not even escaped; a guest may have said anything.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Case(Strict):
    """One thing that was checked."""

    name: Annotated[str, about("claim id, or run, or digest")]
    status: Annotated[Status, about("news: the verdict is; failed: it did not run; absent: not measurable")]
    message: Annotated[str, about("why it is not ok, or what is worth knowing about it; may be empty")] = ""


class Suite(Strict):
    """One experiment of a night."""

    experiment: Annotated[str, about("name")]
    begun: Annotated[str, about("UTC, ISO 8601")]
    seconds: Annotated[float, about("wall time", "s")]
    result: Annotated[str | None, about("path of the result set; null: none was written")]
    cases: Annotated[tuple[Case, ...], about("in order")]
    shifts: Annotated[tuple[str, ...], about("figures that moved most against the reference, one line each")] = ()

    def count(self, *statuses: Status) -> int:
        """Cases with one of these statuses."""
        return sum(case.status in statuses for case in self.cases)


def junit_xml(suites: Sequence[Suite]) -> bytes:
    """The document, UTF-8; it fits the junit-10.xsd of Jenkins' xunit plugin."""
    root = ElementTree.Element("testsuites", {"name": "krepro"} | _totals(suites))
    for suite in suites:
        about_it = {"skipped": str(suite.count("absent", "untried")), "timestamp": suite.begun}
        named = {"name": _clean(suite.experiment)}
        element = ElementTree.SubElement(root, "testsuite", named | _totals([suite]) | about_it)
        if suite.result is not None:
            properties = ElementTree.SubElement(element, "properties")
            ElementTree.SubElement(properties, "property", name="result", value=_clean(suite.result))
        for case in suite.cases:
            _case(element, suite.experiment, case)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _case(suite: ElementTree.Element, experiment: str, case: Case) -> None:
    element = ElementTree.SubElement(
        suite, "testcase", name=_clean(case.name), classname=f"krepro.{_clean(experiment)}", time="0"
    )
    message = _clean(case.message)
    if case.status in _TAGS:
        ElementTree.SubElement(element, _TAGS[case.status], message=message, type=case.status).text = message
    elif message:
        ElementTree.SubElement(element, "system-out").text = message


def _totals(suites: Sequence[Suite]) -> dict[str, str]:
    return {
        "tests": str(sum(len(suite.cases) for suite in suites)),
        "failures": str(sum(suite.count("news") for suite in suites)),
        "errors": str(sum(suite.count("failed") for suite in suites)),
        "time": f"{sum(suite.seconds for suite in suites):.3f}",
    }


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
