"""Node labels as columns: for each label key in use, the value of every node as a small integer."""

from collections.abc import Collection

import numpy as np

from sampan.scheduler.cache.arrays import Codes, Flags, Ints, Rows, grow_array

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
        self.codes = grow_array(self.codes, size, MISSING)

    def code(self, value: str) -> int:
        """Return the code of the value; for an unknown value, a code that no row has."""
        return self._numbers.get(value, -2)

    def exists(self, rows: Rows) -> Flags:
        present: Flags = self.codes[rows] != MISSING
        return present

    def is_one_of(self, values: Collection[str], rows: Rows) -> Flags:
        codes = self.codes[rows]
        numbers = [self._numbers[value] for value in values if value in self._numbers]
        if len(numbers) == 1:
            equal: Flags = codes == numbers[0]
            return equal
        return np.isin(codes, numbers) if numbers else np.zeros(len(codes), dtype=np.bool_)

    def compares(self, bound: int, *, greater: bool, rows: Rows) -> Flags:
        """Return for each row whether its value is an integer above (or below) the bound."""
        is_number, number = self._as_integers()
        chosen = self.codes[rows]
        holds = is_number & ((number > bound) if greater else (number < bound))
        flags: Flags = holds[chosen]  # MISSING (-1) selects the last entry, which is not a number
        return flags

    def _number(self, value: str) -> int:
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
            self._integers = None
        return number

    def _as_integers(self) -> tuple[Flags, Ints]:
        if self._integers is None:
            read = [_integer(value) for value in self.values] + [None]
            self._integers = (
                np.array([number is not None for number in read], dtype=np.bool_),
                np.array([number or 0 for number in read], dtype=np.int64),
            )
        return self._integers


def _integer(text: str) -> int | None:
    try:
        number = int(text) if "_" not in text and text == text.strip() else None
    except ValueError:
        return None
    return number if number is not None and -(2**63) <= number < 2**63 else None
