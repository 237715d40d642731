"""The exit codes: documented in one place, and kept by the commands."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from sampan.cli.exit_codes import EXIT_CODES
from sampan.cli.main import COMMANDS, cli

DOCS = Path(__file__).parents[2] / "docs/cli.md"


def test_the_table_in_the_docs() -> None:
    """docs/cli.md has the rows of `sampan help exit-codes`."""
    text = DOCS.read_text()
    for entry in EXIT_CODES:
        assert f"| {entry.code} | {entry.commands} | {entry.meaning} |" in text


def test_the_topics_fit_into_80_columns() -> None:
    for topic in ("exit-codes", "environment"):
        done = CliRunner().invoke(cli, ["help", topic])
        assert done.exit_code == 0
        assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command(name: str) -> None:
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
def test_codes_of_commands(words: list[str], code: int, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, words, env={"SAMPAN_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert done.exit_code == code, done.output
