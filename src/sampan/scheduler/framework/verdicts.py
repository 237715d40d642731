"""Reasons for rejecting a node, interned as small integers that fit into an array; 0 means not rejected."""

from typing import NamedTuple


class Verdict(NamedTuple):
    plugin: str
    is_final: bool
    """Whether preemption on the node would not help."""
    reasons: tuple[str, ...]


class Verdicts:
    def __init__(self) -> None:
        self._all: list[Verdict] = [Verdict("", False, ())]
        self._numbers: dict[Verdict, int] = {}

    def code(self, plugin: str, *reasons: str, is_final: bool = False) -> int:
        verdict = Verdict(plugin, is_final, reasons)
        number = self._numbers.get(verdict)
        if number is None:
            number = self._numbers[verdict] = len(self._all)
            self._all.append(verdict)
        return number

    def __getitem__(self, code: int) -> Verdict:
        return self._all[code]
