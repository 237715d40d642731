"""Failures that a person at the command line is told in one line."""

import click


class CliError(click.ClickException):
    """Names the flag, file or port that is wrong; ends the command with code 1."""
