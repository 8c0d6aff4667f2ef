# SPDX-License-Identifier: MIT
"""JUnit XML as CI servers read it, by the rules of the junit-10.xsd of Jenkins' xunit plugin."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.junit import Case, Suite, junit_xml
from harness.status import STATUSES

#: Element: attributes that it must and may have, and the elements that may be in it.
RULES: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": (
        {"name"},
        {"time", "classname", "group"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "skipped": (set(), {"type", "message"}, set()),
    "error": (set(), {"type", "message"}, set()),
    "failure": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}
TIME = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?")
TEXT_IN = {"skipped", "error", "failure", "system-out"}


def check(element: ElementTree.Element) -> None:
    required, allowed, children = RULES[element.tag]
    assert required <= set(element.keys()) <= required | allowed, element.tag
    assert {child.tag for child in element} <= children
    assert element.tag in TEXT_IN or not (element.text or "").strip()
    if element.tag in {"testsuites", "testsuite"}:
        assert TIME.fullmatch(element.get("time", ""))
    for child in element:
        check(child)


def suite(*cases: Case, seconds: float = 1.5, result: str | None = "results/x/1", name: str = "x") -> Suite:
    return Suite(experiment=name, begun="2026-11-21T00:00:00Z", seconds=seconds, result=result, cases=cases)


CASES = (
    Case(name="run", status="ok"),
    Case(name="a", status="ok", message="measured 1"),
    Case(name="b", status="news", message="turned & <fell>"),
    Case(name="c", status="absent", message="no PMU"),
    Case(name="d", status="failed", message="hung"),
    Case(name="e", status="failed", message="hung"),
)


def test_a_night_in_xml():
    root = ElementTree.fromstring(junit_xml([suite(*CASES), suite(CASES[0], name="y", seconds=3600, result=None)]))
    check(root)
    assert root.attrib == {
        "name": "krepro", "tests": "7", "failures": "1", "errors": "2", "time": "3601.500",
    }  # fmt: skip
    first, second = root
    assert (first.get("tests"), first.get("failures"), first.get("errors"), first.get("skipped")) == tuple("6121")
    assert second.get("timestamp") == "2026-11-21T00:00:00Z"
    assert second.find("properties") is None
    cases = {case.get("name"): case for case in first.iter("testcase")}
    assert list(cases) == [case.name for case in CASES]
    assert cases["b"].get("classname") == "krepro.x"
    failure = cases["b"].find("failure")
    assert failure is not None
    assert failure.get("message") == failure.text == "turned & <fell>"
    assert [[child.tag for child in case] for case in cases.values()] == [
        [], ["system-out"], ["failure"], ["skipped"], ["error"], ["error"],
    ]  # fmt: skip


def test_a_night_that_has_not_begun():
    root = ElementTree.fromstring(junit_xml([]))
    check(root)
    assert root.get("tests") == "0"


@given(st.text(), st.text(), st.sampled_from(STATUSES), st.floats(0, 1e6))
def test_whatever_a_guest_said_is_xml(name, message, status, seconds):
    document = junit_xml([suite(Case(name=name, status=status, message=message), seconds=seconds, name=name)])
    check(ElementTree.fromstring(document))


@pytest.mark.parametrize("text", ["\0", "\x1b[31m", "\ud800", "\ufffe"])
def test_what_xml_cannot_hold_is_replaced(text):
    document = junit_xml([suite(Case(name="a", status="failed", message=f"<{text}>"))])
    error = ElementTree.fromstring(document).find("testsuite/testcase/error")
    assert error is not None
    assert "\ufffd" in str(error.text)
