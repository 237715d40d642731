"""`kubectl alpha`."""

from click.testing import CliRunner

from sampan.cli.main import cli


def test_there_are_no_alpha_commands() -> None:
    outcome = CliRunner().invoke(cli, ["kubectl", "alpha"], prog_name="sampan")
    assert (outcome.exit_code, outcome.output) == (0, "No alpha commands are available in this version of kubectl\n")
