# SPDX-License-Identifier: MIT
"""D, DTrace's language, as bpftrace's: what today's Linux would run for the same question, so that it has a price.

Clauses with a predicate, aggregations, what is traced and printed, stacks, variables. A clause that has anything else
is left out with the reason; what is taken in another's place is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from getopt import GetoptError, getopt

from harness.errors import UsageError
from harness.program.probenames import SHORT
from harness.program.scripts.asked import brief
from harness.program.scripts.dpoints import Point, point_of

#: Kinds of bpftrace's that have three colons too.
_BPFTRACES = {*SHORT, *SHORT.values(), "watchpoint", "asyncwatchpoint", "w", "aw"}
_TEXT = r'"(?:\\.|[^"\\])*"'
_HEAD = re.compile(r"(?:^|[\s,;}])(?P<provider>[\w$*?.-]*):[\w$*?.`-]*:[\w$*?.`-]*:[\w$*?.-]*\s*(?=[,/{])")
_TIMER = re.compile(r"(?:^|[\s,;}])(?:profile:::|tick:::)?(?:tick|profile)-\d+[a-z]*\s*(?=[,/{])")
_SILENT = re.compile(rf"({_TEXT})|/\*.*?\*/|^\s*#.*?$", re.DOTALL | re.MULTILINE)
_CLAUSE = re.compile(r"[\s;]*(?P<probes>[^{}/;\"]+?)\s*(?:/(?P<predicate>[^{}]*?)/\s*)?\{", re.DOTALL)
_TOKEN = re.compile(
    rf"\s*(?P<word>{_TEXT}|0[xX][0-9a-fA-F]+|\d+|(?:self|this)->\w+|\$\w+|@\w*|[A-Za-z_]\w*"
    r"|->|\+\+|--|&&|\|\||[=!<>]=|<<|>>|[-+*/%]=|[-+*/%<>!~&|^?:,()\[\]=])"
)
_ASSIGNED = re.compile(r"(?<![\w>$@.])([A-Za-z_]\w*)\s*(?:\[[^\]]*\])?\s*(?:=(?!=)|\+\+|--|[-+]=)")
_AGGREGATE = re.compile(r"(?P<map>@\w*)\s*(?:\[(?P<keys>.*)\])?\s*=\s*(?P<how>\w+)\s*\((?P<of>.*)\)", re.DOTALL)
_CALL = re.compile(r"(?P<name>\w+)\s*\((?P<of>.*)\)", re.DOTALL)
_CONVERSION = re.compile(r"%([-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|j|z)?([a-zA-Z%])")
_AGGREGATES = {"count": "count", "sum": "sum", "avg": "avg", "min": "min", "max": "max", "quantize": "hist",
               "lquantize": "lhist"}  # fmt: skip
_PLAIN = {"pid": "pid", "tid": "tid", "execname": "comm", "timestamp": "nsecs", "walltimestamp": "nsecs", "cpu": "cpu",
          "uid": "uid", "gid": "gid", "NULL": "0"}  # fmt: skip
_WHERE = ("probefunc", "probename", "probemod", "probeprov")
_STACKS = {"stack": "kstack", "ustack": "ustack"}
_STRINGS = ("comm", "func", "probe", "str(", "kstack", "ustack", '"')


class _Unknown(Exception):
    """A part of a clause that nothing is known of; the reason."""


@dataclass
class Translated:
    """`text` is bpftrace's; clauses without a price, and what is taken in another's place."""

    text: str
    unpriced: list[tuple[str, str]]
    notes: list[str]


@dataclass
class _Clause:
    """One clause, while it is translated."""

    point: Point
    globals: frozenset[str]
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def is_d(text: str) -> bool:
    """Whether this is D: three colons before a clause, or a timer of its kind."""
    plain = re.sub(_TEXT, '""', text)
    return bool(_TIMER.search(plain)) or any(m.group("provider") not in _BPFTRACES for m in _HEAD.finditer(plain))


def of_command(lines: Sequence[Sequence[str]]) -> tuple[str, list[str]]:
    """The text that a command line of dtrace's has, and notes."""
    if len(lines) > 1:
        raise UsageError("dtrace: one command at a time")
    try:
        found, rest = getopt(list(lines[0][1:]), "n:qZwx:b:o:p:c:")
    except GetoptError as error:
        raise UsageError(f"dtrace: {error}", hint="dtrace -n 'PROBE { … }'") from error
    text = " ".join(value for option, value in found if option == "-n")
    if rest or not text:
        raise UsageError("dtrace: no text of D's, or more than that", hint="dtrace -n 'PROBE { … }', or a file F.d")
    some = [
        f"{option} {value}: of one program alone; firings are to be its own"
        for option, value in found
        if option in ("-p", "-c")
    ]
    return text, some


def read(text: str) -> Translated:
    """Its clauses in bpftrace's language. UsageError for what is no D, and where no clause has a price."""
    plain = _SILENT.sub(lambda match: match.group(1) or " ", text)
    made = Translated("", [], [])
    clauses = list(_clauses(plain))
    if not clauses:
        raise UsageError("has no clause of D's", where=brief(text) or "the script")
    known = frozenset(name for _, _, body in clauses for name in _ASSIGNED.findall(re.sub(_TEXT, '""', body)))
    lines = []
    for probes, predicate, body in clauses:
        for description in (one.strip() for one in probes.split(",")):
            point = point_of(description)
            if isinstance(point, str):
                made.unpriced.append((description, point))
                continue
            clause = _Clause(point, known)
            try:
                line = _translated(clause, predicate, body)
            except _Unknown as reason:
                made.unpriced.append((description, str(reason)))
                continue
            lines.append(line)
            made.notes += [f"{description}: {note}" for note in (f"priced as bpftrace's {line}", *clause.notes)]
    if not lines:
        probe, why = made.unpriced[0]
        raise UsageError(f"nothing of the script has a price: {probe}: {why}")
    made.text = "\n".join(lines)
    return made


def _clauses(text: str) -> Iterator[tuple[str, str | None, str]]:
    """Probes, predicate and body of each."""
    at = 0
    while text[at:].strip(" \t\r\n;"):
        match = _CLAUSE.match(text, at)
        end = match and _closed(text, match.end())
        if match is None or end is None:
            hint = "PROVIDER:MODULE:FUNCTION:NAME /PREDICATE/ { ACTIONS }"
            raise UsageError("is no clause of D's", where=brief(text[at:]), hint=hint)
        yield match.group("probes"), match.group("predicate"), text[match.end() : end]
        at = end + 1


def _closed(text: str, at: int) -> int | None:
    """Where the brace closes that opened before."""
    depth = 1
    for match in re.finditer(rf"{_TEXT}|[{{}}]", text[at:]):
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if not depth:
            return at + match.start()
    return None


def _translated(clause: _Clause, predicate: str | None, body: str) -> str:
    actions = [_action(clause, part) for part in _parts(body, ";") if part.strip()]
    if not actions:
        clause.note("an empty clause traces its probe's number: priced as one that prints a number")
        actions = ['printf("%d\\n", cpu)']
    asked = f" /{_expression(clause, predicate)}/" if predicate is not None else ""
    return f"{clause.point.probe}{asked} {{ {'; '.join(actions)}; }}"


def _parts(text: str, at: str) -> list[str]:
    """Parted at a character that is in no text and no bracket."""
    parts, depth = [""], 0
    for match in re.finditer(rf"{_TEXT}|.", text, re.DOTALL):
        word = match.group()
        depth += (word in "([{") - (word in ")]}")
        if word == at and depth == 0:
            parts.append("")
        else:
            parts[-1] += word
    return parts


def _action(clause: _Clause, text: str) -> str:
    text = text.strip()
    aggregate = _AGGREGATE.fullmatch(text)
    if aggregate:
        return _aggregated(clause, aggregate)
    call = _CALL.fullmatch(text)
    if call and call.group("name") in ("printf", "trace"):
        arguments = _parts(call.group("of"), ",")
        return _printed(clause, arguments if call.group("name") == "printf" else ['"%d\\n"', *arguments])
    if call and call.group("name") in _STACKS:
        return f'printf("%s\\n", {_expression(clause, text)})'
    if call and call.group("name") == "exit":
        return "exit()"
    freed = re.fullmatch(r"self->(\w+)\s*=\s*0", text)
    if freed:
        return f"delete(@self_{freed.group(1)}[tid])"
    if "=" in text or "++" in text or "--" in text:
        return _expression(clause, text)
    raise _Unknown(f"the action {brief(text)} is none that is known here")


def _aggregated(clause: _Clause, match: re.Match[str]) -> str:
    how = match.group("how")
    if how not in _AGGREGATES:
        raise _Unknown(f"the aggregation {how}() is none that is known here")
    keys = f"[{_list(clause, match.group('keys'))}]" if match.group("keys") is not None else ""
    return f"{match.group('map')}{keys} = {_AGGREGATES[how]}({_list(clause, match.group('of'))})"


def _list(clause: _Clause, text: str) -> str:
    return ", ".join(_expression(clause, part) for part in _parts(text, ",") if part.strip())


def _printed(clause: _Clause, arguments: Sequence[str]) -> str:
    """With conversions that fit what bpftrace has in each place."""
    form, values = arguments[0].strip(), [_expression(clause, one) for one in arguments[1:]]
    if not re.fullmatch(_TEXT, form):
        raise _Unknown("printf without a format")
    left = iter(values)

    def fitting(match: re.Match[str]) -> str:
        if match.group(2) == "%":
            return match.group()
        value = next(left, None)
        if value is None:
            raise _Unknown(f"{form} has more conversions than there are values")
        if value.startswith(_STRINGS):
            return f"%{match.group(1)}s"
        return f"%{match.group(1)}{match.group(2) if match.group(2) in 'xXp' else 'd'}"

    fitted = _CONVERSION.sub(fitting, form)
    if next(left, None) is not None:
        raise _Unknown(f"{form} has fewer conversions than there are values")
    return f"printf({', '.join([fitted, *values])})"


def _expression(clause: _Clause, text: str) -> str:
    words, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise _Unknown(f"{brief(text[at:].strip())} is not read here")
        words.append(match.group("word"))
        at = match.end()
    return _words(clause, words)


def _words(clause: _Clause, words: Sequence[str]) -> str:
    """In bpftrace's, one by one."""
    made: list[str] = []
    skip = 0
    for place, word in enumerate(words):
        if skip:
            skip -= 1
            continue
        if word in _STACKS:
            depth, skip = _frames(words[place + 1 :], word)
            made.append(f"{_STACKS[word]}{depth}")
        elif word in ("copyinstr", "stringof") and words[place + 1 : place + 2] == ["("]:
            made.append("str")
        elif word[0].isalpha() or word[0] in "_$@":
            made.append(_word(clause, word))
        else:
            made.append(word)
    if not made:
        raise _Unknown("an expression is empty")
    text = re.sub(r"([(\[]) | (?=[)\],\[]|\+\+|--)", r"\1", " ".join(made))
    return re.sub(r"(?<=\w) (?=\()", "", text)


def _frames(words: Sequence[str], name: str) -> tuple[str, int]:
    """How deep a stack is to be, and how many words say so."""
    if list(words[:2]) == ["(", ")"]:
        return "", 2
    if len(words) > 2 and words[0] == "(" and words[1].isdecimal() and words[2] == ")":
        return f"({words[1]})", 3
    raise _Unknown(f"{name} is called with a number of frames, or with nothing")


def _word(clause: _Clause, word: str) -> str:
    whose, _, name = word.partition("->")
    if name:
        return f"@self_{name}[tid]" if whose == "self" else f"${name}"
    if word in _WHERE:
        return _place(clause, word)
    if re.fullmatch(r"arg\d|errno", word):
        return _argument(clause, word)
    if word.startswith("$"):
        clause.note(f"{word} is known when it runs: priced as a number")
        return "1"
    if word in _PLAIN or word in clause.globals:
        return _PLAIN.get(word, f"@{word}")
    raise _Unknown(f"{word} is nothing that is known here")


def _place(clause: _Clause, word: str) -> str:
    if word == "probefunc" and clause.point.kind == "function":
        return "func"
    if word == "probefunc" and clause.point.kind.endswith("-of-all"):
        clause.note("probefunc is priced as the number of the call")
        return "args->id"
    clause.note(f"{word} is priced as the number of the probe")
    return "probe"


def _argument(clause: _Clause, word: str) -> str:
    kind = clause.point.kind
    if kind == "function" and word[3:].isdecimal() and int(word[3:]) < 6:
        return word
    if kind == "function-return" and word == "arg1":
        return "retval"
    if kind.startswith("syscall-entry") and word != "errno":
        clause.note("an argument of a call is priced as another word of its event")
        return "args->id" if kind.endswith("-of-all") else "args->__syscall_nr"
    if kind.startswith("syscall-return") and word in ("arg0", "arg1", "errno"):
        return "args->ret"
    raise _Unknown(f"what {word} is at {clause.point.probe} is not known here")
