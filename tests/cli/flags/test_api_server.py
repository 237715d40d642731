"""Flags of the API server: admission plugins, and flags that are on or off, written as for the real program."""

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from sampan.cli.flags.api_server import BIND_ALL_ADDRESSES, server_options
from sampan.cli.main import cli

SWITCHES = (
    "--anonymous-auth",
    "--enable-bootstrap-token-auth",
    "--enable-priority-and-fairness",
    "--encryption-provider-config-automatic-reload",
    "--service-account-extend-token-expiration",
)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--enable-admission-plugins Odd", "--enable-admission-plugins: there is no admission plugin 'Odd'"),
        (
            "--disable-admission-plugins Priority,Odd",
            "--disable-admission-plugins: there is no admission plugin 'Odd'",
        ),
        ("--enable-admission-plugins EventRateLimit", "EventRateLimit: needs a configuration"),
        (
            "--admission-control-config-file /nowhere",
            "--admission-control-config-file: /nowhere: cannot be read",
        ),
    ],
)
def test_unknown_admission_plugins_and_configurations_are_reported(
    words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAMPAN_HOME", str(tmp_path))
    done = CliRunner().invoke(cli, ["up", *words.split()])
    assert done.exit_code == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@click.command()
@server_options(BIND_ALL_ADDRESSES)
def command(**options: Any) -> dict[str, Any]:
    return options


@pytest.mark.parametrize("flag", SWITCHES)
@pytest.mark.parametrize(("end", "is_on"), [("", True), ("=true", True), ("=false", False)])
def test_boolean_flags_accept_true_false_and_no_value(flag: str, end: str, is_on: bool) -> None:
    options = command.main([f"{flag}{end}", "--secure-port=7443"], standalone_mode=False)
    assert options[flag.removeprefix("--").replace("-", "_")] is is_on
    assert options["secure_port"] == 7443
