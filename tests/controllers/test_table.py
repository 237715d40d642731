"""The table of controllers."""

from importlib import import_module

import pytest

from sampan.controllers.table import CONTROLLERS


@pytest.mark.parametrize("row", CONTROLLERS, ids=lambda row: row.name)
def test_every_row_can_be_made(row: object) -> None:
    module, _, function = row.factory.partition(":")  # type: ignore[attr-defined]
    assert callable(getattr(import_module(module), function))


def test_no_name_is_taken_twice() -> None:
    names = [name for row in CONTROLLERS for name in (row.name, *row.aliases)]
    assert len(names) == len(set(names))
