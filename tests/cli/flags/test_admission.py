"""Which admission plug-ins are on, and what they are told."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from sampan.cli.main import cli


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--enable-admission-plugins Odd", "--enable-admission-plugins: there is no admission plug-in 'Odd'"),
        (
            "--disable-admission-plugins Priority,Odd",
            "--disable-admission-plugins: there is no admission plug-in 'Odd'",
        ),
        ("--enable-admission-plugins EventRateLimit", "EventRateLimit: needs a configuration"),
        ("--admission-control-config-file /nowhere", "--admission-control-config-file: /nowhere: No such file"),
    ],
)
def test_mistakes(words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMPAN_HOME", str(tmp_path))
    done = CliRunner().invoke(cli, ["up", *words.split()])
    assert done.exit_code == 1
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
