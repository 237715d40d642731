"""`sampan service`: the systemd unit, and rejected arguments."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sampan.cli.main import cli
from sampan.cli.service import MARK, ServiceSettings, quote, unit_text


def print_unit(*words: str, home: Path) -> str:
    done = CliRunner().invoke(cli, ["service", "install", "--print", *words], env={"SAMPAN_HOME": str(home)})
    assert done.exit_code == 0, done.output
    return done.stdout


def settings(**changes: Any) -> ServiceSettings:
    values: dict[str, Any] = {
        "cluster": "lab",
        "data_dir": Path("/srv/my clusters/lab"),
        "command": ["/usr/bin/python3", "-m", "sampan", "up", "--nodes", "1"],
        "is_user": False,
        "runs_containers": True,
        "writes_elsewhere": False,
    }
    return ServiceSettings(**(values | changes))


def test_the_unit_runs_the_cluster_with_its_flags(tmp_path: Path) -> None:
    unit = print_unit("--system", "--name", "lab", "--", "--nodes", "3", "--runtime", "hollow", home=tmp_path)
    assert unit.startswith(MARK)
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    program, *words = line.removeprefix("ExecStart=").split()
    assert os.path.isabs(program)
    assert words == [
        "-m",
        "sampan",
        "up",
        "--name",
        "lab",
        "--data-dir",
        str(tmp_path / "lab"),
        *["--nodes", "3", "--runtime", "hollow"],
    ]
    assert "NoNewPrivileges=yes" in unit
    assert f"ReadWritePaths={tmp_path / 'lab'}" in unit
    assert not (tmp_path / "lab").exists()


def test_unit_for_container_nodes_has_no_privilege_restrictions(tmp_path: Path) -> None:
    unit = print_unit("--system", home=tmp_path)
    assert "Delegate=yes" in unit
    assert "NoNewPrivileges" not in unit
    (tmp_path / "sampan").mkdir()
    (tmp_path / "sampan/flags.json").write_text('{"runtime": "hollow"}')
    assert "NoNewPrivileges=yes" in print_unit("--system", home=tmp_path)
    assert "ProtectSystem" not in print_unit("--system", "--", "--merge-kubeconfig", home=tmp_path)


def test_user_unit_omits_capability_settings() -> None:
    unit = unit_text(settings(is_user=True, runs_containers=False))
    assert "WantedBy=default.target" in unit
    assert "CapabilityBoundingSet" not in unit
    assert 'ReadWritePaths="/srv/my clusters/lab"' in unit


@pytest.mark.parametrize(
    ("word", "quoted"),
    [("plain", "plain"), ("", '""'), ("a b", '"a b"'), ("50%", "50%%"), ("$HOME", "$$HOME"), ('a"b', '"a\\"b"')],
)
def test_special_characters_are_quoted_in_units(word: str, quoted: str) -> None:
    assert quote(word) == quoted


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("changes", [{}, {"runs_containers": False, "data_dir": Path("/tmp")}, {"is_user": True}])
def test_systemd_accepts_the_unit(tmp_path: Path, changes: dict[str, Any]) -> None:
    command = [shutil.which("true") or "/bin/true", "100%", "$HOME", "a b"]
    path = tmp_path / "sampan-lab.service"
    path.write_text(unit_text(settings(command=command, **changes)))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True)
    complaints = [line for line in done.stderr.splitlines() if "sampan-lab" in line]
    assert complaints == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["install", "--", "--nodes", "many"], "'many' is not a valid integer"),
        (["install", "--", "--detach"], "--detach: give it to `sampan service install`, or leave it out"),
        (["install", "--", "--name=x"], "--name: give it to"),
        (["install", "--name", "../x"], "must be a DNS label"),
        (["uninstall", "--user"], "there is no "),
        (["status", "--user"], "there is no service"),
    ],
)
def test_invalid_arguments_are_reported(tmp_path: Path, words: list[str], message: str) -> None:
    environment = {"SAMPAN_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    done = CliRunner().invoke(cli, ["service", *words], env=environment)
    assert done.exit_code in (1, 2)
    assert message in done.stderr


def test_unit_not_written_by_sampan_is_kept(tmp_path: Path) -> None:
    unit = tmp_path / "systemd/user/sampan-sampan.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\n")
    environment = {"SAMPAN_HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path)}
    for words in (["install", "--user"], ["uninstall", "--user"]):
        done = CliRunner().invoke(cli, ["service", *words], env=environment)
        assert (done.exit_code, "not written by `sampan service install`" in done.stderr) == (1, True)
    assert unit.read_text() == "[Service]\n"
