"""Node labels as columns: for each label key in use, the value of every node as a small integer."""

from collections.abc import Collection

import numpy as np

from sampan.scheduler.arrays import Codes, Flags, Ints, Rows, grown

MISSING = -1


class LabelColumn:
    """The values of one label key: `codes[row]` is the code of the row's value, or MISSING if it has none."""

    def __init__(self, key: str, size: int) -> None:
        self.key = key
        self.codes: Codes = np.full(size, MISSING, dtype=np.int32)
        self.values: list[str] = []
        """Values by code; they are never removed, so that codes stay valid."""
        self._numbers: dict[str, int] = {}
        self._integers: tuple[Flags, Ints] | None = None

    def put(self, row: int, value: str | None) -> bool:
        """Set the value of a row and return whether it changed."""
        code = MISSING if value is None else self._number(value)
        if self.codes[row] == code:
            return False
        self.codes[row] = code
        return True

    def grow(self, size: int) -> None:
        self.codes = grown(self.codes, size, MISSING)

    def code(self, value: str) -> int:
        """Return the code of the value; for an unknown value, a code that no row has."""
        return self._numbers.get(value, -2)

    def exists(self, rows: Rows) -> Flags:
        found: Flags = self.codes[rows] != MISSING
        return found

    def is_one_of(self, values: Collection[str], rows: Rows) -> Flags:
        codes = self.codes[rows]
        wanted = [self._numbers[value] for value in values if value in self._numbers]
        if len(wanted) == 1:
            one: Flags = codes == wanted[0]
            return one
        return np.isin(codes, wanted) if wanted else np.zeros(len(codes), dtype=np.bool_)

    def compares(self, bound: int, *, greater: bool, rows: Rows) -> Flags:
        """Return for each row whether its value is an integer above (or below) the bound."""
        is_number, number = self._as_integers()
        chosen = self.codes[rows]
        holds = is_number & ((number > bound) if greater else (number < bound))
        found: Flags = holds[chosen]  # MISSING (-1) selects the last entry, which is not a number
        return found

    def _number(self, value: str) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            self.values.append(value)
            self._integers = None
        return found

    def _as_integers(self) -> tuple[Flags, Ints]:
        if self._integers is None:
            read = [_integer(value) for value in self.values] + [None]
            self._integers = (
                np.array([found is not None for found in read], dtype=np.bool_),
                np.array([found or 0 for found in read], dtype=np.int64),
            )
        return self._integers


def _integer(text: str) -> int | None:
    try:
        found = int(text) if "_" not in text and text == text.strip() else None
    except ValueError:
        return None
    return found if found is not None and -(2**63) <= found < 2**63 else None


__all__ = ["MISSING", "LabelColumn"]
