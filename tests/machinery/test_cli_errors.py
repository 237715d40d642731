"""Which exceptions are failures that a user can fix."""

import click

from sampan.machinery.cli_errors import expected_message


def test_exception_group_of_expected_errors_becomes_one_message() -> None:
    inner = ExceptionGroup(
        "", [FileNotFoundError(2, "No such file or directory", "/x"), click.ClickException("reported")]
    )
    assert expected_message(ExceptionGroup("", [inner])) == "/x: No such file or directory; reported"
    assert expected_message(ExceptionGroup("", [inner, KeyError("x")])) is None
    assert expected_message(ValueError("from somewhere")) is None
