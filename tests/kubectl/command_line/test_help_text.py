"""The help of every command: examples that parse, a usage, and lines that fit into 80 columns."""

from __future__ import annotations

import os
import pkgutil
import shlex
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from sampan.cli.kubectl import command
from sampan.cli.main import cli
from sampan.kubectl import COMMANDS
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.help_text import examples
from tests.kubectl.command_line.commands import all_commands

WIDTH = 80


ALL = all_commands(command)
TABLES = [import_module(f"{examples.__name__}.{row.name}").HELP for row in pkgutil.iter_modules(examples.__path__)]
HELP: dict[str, tuple[str, str]] = {path: texts for table in TABLES for path, texts in table.items()}


def help_of(path: str) -> str:
    outcome = CliRunner().invoke(cli, ["kubectl", *path.split(), "--help"], prog_name="sampan", env={"PATH": ""})
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_every_command_has_a_usage() -> None:
    assert sorted(path for table in TABLES for path in table) == sorted(["", *ALL])
    assert {path: examples.usage_and_examples(path) for path in HELP} == HELP


@pytest.mark.parametrize("path", sorted(HELP))
def test_help_fits_into_80_columns(path: str) -> None:
    text = help_of(path)
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []
    assert "..." not in text.partition("Available Commands:")[2].partition("\n\n")[0]
    assert "[WORDS]" not in text
    usage = text.partition("\nUsage:\n")[2].split()
    assert usage[:2] == ["sampan", "kubectl"]


@pytest.mark.parametrize("path", sorted(HELP))
def test_examples_parse(path: str) -> None:
    lines = [line for line in HELP[path][1].splitlines() if line and not line.startswith(("#", "|"))]
    for line in lines:
        words = shlex.split(line.replace("$(base64 -w0 ca.crt)", "text"))
        names = command.find_path(click.Context(command), words)
        assert names is not None, line
        inner = ALL[" ".join(names)]
        assert isinstance(inner, KubectlCommand)
        inner.flag_set().parse(words, is_interspersed=inner.is_interspersed)


def test_commands_are_grouped_as_in_kubectl() -> None:
    text = help_of("")
    titles = [
        "Basic Commands (Beginner)",
        "Deploy Commands",
        "Troubleshooting and Debugging Commands",
        "Other Commands",
    ]
    at = [text.index(f"\n{title}:\n") for title in titles]
    assert at == sorted(at)
    assert all(f"\n  {name} " in text for name in COMMANDS)


def test_help_lists_plugins_on_the_path(tmp_path: Path) -> None:
    for name in ("kubectl-foo", "kubectl-bar_baz-qux"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        os.chmod(tmp_path / name, 0o755)
    (tmp_path / "kubectl-text").write_text("not executable")
    env = {"PATH": f"{tmp_path}:/nowhere"}
    outcome = CliRunner().invoke(cli, ["kubectl", "--help"], prog_name="sampan", env=env)
    section = outcome.output.partition("Subcommands provided by plugins:\n")[2].partition("\n\n")[0]
    assert [line.split("  ")[1] for line in section.splitlines()] == ["bar-baz qux", "foo"]
    assert outcome.stderr == ""
