"""Command lines that kubectl and `sampan kubectl` must answer in the same way; there is one module per area.

A module has the attribute `AREA`. test_comparison.py runs the lines of an area in order, each with kubectl in one
namespace and with `sampan kubectl` in another, and compares exit code, standard output and standard error after
`mask`. To add lines, add them to an area; `{ns}` and `{home}` in a line stand for the namespace and the home directory
of the side. A line that differs for a good reason goes into `differences` with that reason, and into
docs/compatibility.md.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_PATTERNS = [
    (re.compile(r"^[EIWF]\d{4} \d\d:\d\d:\d\d\.\d+ .*\n", re.MULTILINE), ""),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC"), "TIME"),
    (re.compile(r"\b(LIVE|MERGED)-\w+"), r"\1-DIRECTORY"),
    (re.compile(r"\t\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}"), "\tTIME"),
    (re.compile(r"kubectl-edit-\w+"), "kubectl-edit-FILE"),
    (re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "TIME"),
    (re.compile(r'(resourceVersion"?: ?"?|Resource Version: +)\d+'), r"\1VERSION"),
    (re.compile(r"(hollow://|sha256:)[0-9a-f]{64}"), r"\1DIGEST"),
    (re.compile(r"(?<=\.)1[0-9a-f]{15}\b"), "EVENT"),
    (re.compile(r"\bnode-\d\b"), "NODE"),
    (re.compile(r"\b100\.64\.\d+\.\d+\b"), "NODE-IP"),
    (re.compile(r"\b10\.96\.\d+\.\d+\b"), "SERVICE-IP"),
    (re.compile(r"\b10\.\d+\.\d+\.\d+\b"), "POD-IP"),
    (re.compile(r"\b3[0-2]\d{3}(?=[/\s]|$)", re.MULTILINE), "NODE-PORT"),
    (re.compile(r"\b127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "-XXXXX"),
    (re.compile(r"(?<![\w.=-])(\d+[smhd]){1,2}(?=[ )\n]|$)|<invalid>|<unknown>", re.MULTILINE), "AGE"),
]
_COLUMNS = re.compile(r" {2,}")


@dataclass(frozen=True, slots=True)
class Line:
    """A command line with more than words."""

    text: str
    stdin: str = ""
    editor: str = ""
    """The command that edits files, instead of a person."""
    unordered: str = ""
    """What separates the parts of the output that kubectl takes from a Go map, whose order is not defined."""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The line with its environment, which tells it from the same words elsewhere."""
        return " ".join([*(f"{name}={value}" for name, value in self.environment.items()), self.text])

    def words(self, namespace: str, home: str) -> list[str]:
        return [word.replace("{ns}", namespace).replace("{home}", home) for word in shlex.split(self.text)]


@dataclass(frozen=True, slots=True)
class Area:
    lines: Sequence[str | Line]
    setup: str = ""
    """Objects that exist in both namespaces before the first line."""
    ready: Sequence[str] = ()
    """Lines for kubectl, in both namespaces, after which the objects are complete."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files in the current directory, which both sides share."""
    differences: Mapping[str, str] = field(default_factory=dict)
    """The keys of lines that differ, with the reason."""

    def all_lines(self) -> list[Line]:
        return [line if isinstance(line, Line) else Line(line) for line in self.lines]


def mask(text: str, *, namespaces: Sequence[str]) -> str:
    """Replace what differs by nature: ages, times, uids, versions, addresses and the namespace of the side."""
    for name in namespaces:
        text = text.replace(name, "NAMESPACE")
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    # Columns are as wide as their widest cell, which may be an age or a name that is masked.
    return "\n".join(_COLUMNS.sub("  ", line.rstrip()) if "  " in line.strip() else line for line in text.split("\n"))
