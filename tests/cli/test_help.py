"""The help is there to be read."""

import os
import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from sampan import __version__
from sampan.cli import kubectl
from sampan.cli.main import COMMANDS, cli

PAGES = [(), *((name,) for name in COMMANDS), *(("kubectl", name) for name in kubectl.COMMANDS)]


@pytest.mark.parametrize("words", PAGES, ids=lambda words: " ".join(words) or "sampan")
def test_every_command_explains_itself(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, [*words, "--help"])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    if words[:1] == ("kubectl",):  # as in kubectl, the usage comes last
        assert "Usage:" in lines
        assert lines[0].strip(), "there is no word of what it does"
    else:
        assert lines[0].startswith(f"Usage: {' '.join(['cli', *words])}")
        assert lines[2].strip(), "there is no word of what it does"
        assert not [line for line in lines if re.search(r"\w-$", line)], "a word is broken at a hyphen"
    assert max(map(len, lines)) <= 80
    assert '""' not in done.stdout


def test_a_reader_that_stops_early_is_no_error() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    program = """
import sys
from sampan.cli import main
main.cli = lambda **settings: sys.stdout.write("an unread line")
main.main()
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, stdout=theirs, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", PAGES, ids=lambda words: " ".join(words) or "sampan")
def test_every_flag_is_explained(words: tuple[str, ...]) -> None:
    context = cli.make_context("sampan", [], resilient_parsing=True)
    command = cli
    for word in words:
        command = command.get_command(context, word)  # type: ignore[assignment]
    silent = [param.name for param in command.params if param.param_type_name == "option" and not param.help]
    assert silent == []


_CONTINUATION = re.compile(r"(Of|After|Where|Whose|Who|Its|Their|The same|By|For)\b")


@pytest.mark.parametrize("words", PAGES, ids=lambda words: " ".join(words) or "sampan")
def test_every_help_text_stands_alone(words: tuple[str, ...]) -> None:
    """A help text is found by searching for its flag, so it must make sense without the lines around it."""
    context = cli.make_context("sampan", [], resilient_parsing=True)
    command = cli
    for word in words:
        command = command.get_command(context, word)  # type: ignore[assignment]
    texts = {param.name: param.help for param in command.params if isinstance(param, click.Option) and param.help}
    assert {name: text for name, text in texts.items() if len(text.split()) < 4 or _CONTINUATION.match(text)} == {}


def test_all_commands_are_listed() -> None:
    text = CliRunner().invoke(cli, ["--help"]).stdout
    for name, (_, about) in COMMANDS.items():
        assert any(line.split() == [name, *about.split()] for line in text.splitlines())


def test_version() -> None:
    assert CliRunner().invoke(cli, ["--version"]).stdout == f"sampan, version {__version__}\n"


LOADED = """
import sys
from sampan.cli.main import main

sys.argv = ["sampan", "--help"]
try:
    main()
except SystemExit:
    print(*{"aiohttp", "cryptography", "sampan.apiserver"} & set(sys.modules), file=sys.stderr)
"""


def test_help_loads_no_server() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stderr == "\n"
