"""Flags that are on or off are written as for the real programs."""

from typing import Any

import click
import pytest

from sampan.cli.flags.api_server import BIND_EVERYWHERE, server_options

SWITCHES = (
    "--anonymous-auth",
    "--enable-bootstrap-token-auth",
    "--enable-priority-and-fairness",
    "--encryption-provider-config-automatic-reload",
    "--service-account-extend-token-expiration",
)


@click.command()
@server_options(BIND_EVERYWHERE)
def command(**options: Any) -> dict[str, Any]:
    return options


@pytest.mark.parametrize("flag", SWITCHES)
@pytest.mark.parametrize(("end", "is_on"), [("", True), ("=true", True), ("=false", False)])
def test_all_ways_to_write_a_switch(flag: str, end: str, is_on: bool) -> None:
    options = command.main([f"{flag}{end}", "--secure-port=7443"], standalone_mode=False)
    assert options[flag.removeprefix("--").replace("-", "_")] is is_on
    assert options["secure_port"] == 7443
