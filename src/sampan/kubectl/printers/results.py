"""The report of what a command did to an object."""

from __future__ import annotations

from typing import Any

import click

from sampan.kubectl.printers import OutputOptions, Printer
from sampan.kubectl.printers.objects import NamePrinter, qualified_name

_SUFFIXES = {"client": " (dry run)", "server": " (server dry run)"}


class ResultPrinter:
    """Prints what happened to an object, `pod/web created (server dry run)`, or the object in the format of -o."""

    def __init__(self, output: OutputOptions, dry_run: str, *, is_sorted: bool = True) -> None:
        self._suffix = _SUFFIXES.get(dry_run, "")
        self._printer: Printer = output.printer(operation="changed", is_sorted=is_sorted)

    @property
    def prints_objects(self) -> bool:
        """Whether -o requests more than names."""
        return not isinstance(self._printer, NamePrinter)

    def print(self, value: dict[str, Any], operation: str) -> None:
        if isinstance(self._printer, NamePrinter) and self._printer.operation:
            text = f"{operation}{self._suffix}"
            click.echo(f"{qualified_name(value)} {text}" if text else qualified_name(value))
        else:
            self._printer.print(value)
