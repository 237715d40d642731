"""The help of every command, and the documented exit codes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from sampan import __version__, kubectl
from sampan.cli.help import EXIT_CODES
from sampan.cli.main import COMMANDS, cli

PAGES = [(), *((name,) for name in COMMANDS), *(("kubectl", name) for name in kubectl.COMMANDS)]
DOCS = Path(__file__).parents[2] / "docs/cli.md"


@pytest.mark.parametrize("words", PAGES, ids=lambda words: " ".join(words) or "sampan")
def test_every_command_has_a_usage_and_a_description(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, [*words, "--help"])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    if words[:1] == ("kubectl",):  # as in kubectl, the usage comes last
        assert "Usage:" in lines
        assert lines[0].strip(), "the description is missing"
    else:
        assert lines[0].startswith(f"Usage: {' '.join(['cli', *words])}")
        assert lines[2].strip(), "the description is missing"
        assert not [line for line in lines if re.search(r"\w-$", line)], "a word is broken at a hyphen"
    assert max(map(len, lines)) <= 80
    assert '""' not in done.stdout


def test_closed_stdout_pipe_is_not_an_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    program = """
import sys
from sampan.cli import main
main.cli = lambda **settings: sys.stdout.write("an unread line")
main.main()
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, stdout=write_end, stderr=subprocess.PIPE, text=True)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", PAGES, ids=lambda words: " ".join(words) or "sampan")
def test_every_flag_has_a_help_text(words: tuple[str, ...]) -> None:
    context = cli.make_context("sampan", [], resilient_parsing=True)
    command = cli
    for word in words:
        command = command.get_command(context, word)  # type: ignore[assignment]
    unexplained = [param.name for param in command.params if param.param_type_name == "option" and not param.help]
    assert unexplained == []


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


def test_docs_list_every_exit_code() -> None:
    """docs/cli.md has the rows of `sampan help exit-codes`."""
    text = DOCS.read_text()
    for entry in EXIT_CODES:
        assert f"| {entry.code} | {entry.commands} | {entry.meaning} |" in text


def test_help_topics_fit_into_80_columns() -> None:
    for topic in ("exit-codes", "environment"):
        done = CliRunner().invoke(cli, ["help", topic])
        assert done.exit_code == 0
        assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_help_subcommand_prints_the_help_of_every_command(name: str) -> None:
    done, direct = (CliRunner().invoke(cli, words) for words in (["help", name], [name, "--help"]))
    assert (done.exit_code, direct.exit_code) == (0, 0)
    assert done.stdout.startswith(direct.stdout.split("\n")[0].split(" [")[0])


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--version"], 0),
        (["help"], 0),
        (["help", "nothing"], 1),
        (["nothing"], 2),
        (["status", "--nothing"], 2),
        (["up", "--nodes", "many"], 2),
        (["up", "--name", "A/B"], 1),
        (["status", "--name", "nothing"], 1),
        (["snapshot", "restore", "/nothing"], 1),
        (["top", "--interval", "0"], 2),
    ],
)
def test_exit_codes_of_commands(words: list[str], code: int, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, words, env={"SAMPAN_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert done.exit_code == code, done.output
