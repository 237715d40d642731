"""The flags that every way of starting the controllers has, and what they mean."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from sampan.cli import flags
from sampan.cli.failures import CliError
from sampan.controllers.descriptor import ControllerConfig

_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("--root-ca-file",), {"metavar": "F", "help": "The CA that pods are given to verify the API server with."}),
)


def controller_options(command: Callable[..., Any]) -> Callable[..., Any]:
    decorators = [
        click.option(*names, show_default=kwargs.get("default") != "", **kwargs) for names, kwargs in _OPTIONS
    ]
    return functools.reduce(lambda wrapped, option: option(wrapped), reversed(decorators), command)


def controller_config(given: Mapping[str, Any]) -> ControllerConfig:
    return ControllerConfig(root_ca=_text("--root-ca-file", given["root_ca_file"]))


def _text(flag: str, path: str | None) -> str:
    file: Path | None = flags.file(flag, path)
    if file is None:
        return ""
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{flag}: cannot read {path}: {error}") from None


__all__ = ["controller_config", "controller_options"]
