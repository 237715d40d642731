"""Repeatable measurements: `make bench` runs them all and prints one table.

A measurement is a module `benchmarks/<topic>_bench.py` with a function `rows()` that yields `Row`s. Goals are stated
for the reference machine; `benchmarks.run` scales them by how fast this machine is at the moment.
"""

from typing import NamedTuple


class Row(NamedTuple):
    """One measured figure."""

    name: str
    value: float
    unit: str
    """`us`, `ms`, `s`, `MB`: less is better. Anything that ends in `/s` is a rate: more is better."""
    goal: float | None = None
    """The goal at calibration 1.0, or None."""
    note: str = ""
    """A condition that the figure depends on (the disk, the number of writers)."""

    @property
    def is_rate(self) -> bool:
        return self.unit.endswith("/s")
