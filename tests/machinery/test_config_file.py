"""The reader of configuration files, and the programs that use it."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from sampan.api import limits
from sampan.machinery import config_file
from sampan.machinery.config_file import ConfigFileError

TIMEOUT_S = 120
DATES = ["2026-13-45", "2026-01-31", "2026-99-99T99:99:99Z", "0000-00-00", "2026-02-30 25:61:61"]


@pytest.mark.parametrize("date", DATES)
def test_dates_are_text(tmp_path: Path, date: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"a: {date}\nb: [{date}]\n{date}: c")
    assert config_file.read_config_file(path) == {"a": date, "b": [date], date: "c"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: 1\nb: [", "yaml: line 2: did not find expected node content"),
        (b"a: b\nc: d: e\n", "yaml: line 2: mapping values are not allowed in this context"),
        (b"a: 1\nb: 2\na: 3", 'yaml: line 3: key "a" already set in map'),
        (b"a: \xff", "yaml: "),
        (b"[" * 100_000, "exceeded max depth"),
        (
            b"a: &a [x,x,x,x,x,x,x,x,x]\n"
            + b"".join(b"%c: &%c [%s]\n" % (i, i, b",".join([b"*%c" % (i - 1)] * 9)) for i in range(98, 110)),
            "excessive aliasing",
        ),
        (b"a" * (limits.REQUEST_BODY_BYTES + 1), "the file is larger than 3145728 bytes"),
    ],
    ids=["parser", "scanner", "duplicate key", "encoding", "nesting", "aliases", "size"],
)
def test_invalid_content_is_reported(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigFileError) as caught:
        config_file.read_config_file(path)
    assert message in str(caught.value)


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigFileError, match=r"^cannot be read: No such file or directory$"):
        config_file.read_config_file(tmp_path / "none")
    with pytest.raises(ConfigFileError, match=r"^cannot be read: Is a directory$"):
        config_file.read_config_file(tmp_path)


def test_last_of_several_values_counts_if_decoding_is_lenient() -> None:
    assert config_file.decode_config("{a: 1, a: 2}", is_strict=False) == {"a": 2}


def test_errors_start_with_the_field() -> None:
    class Rule(msgspec.Struct):
        name: str

    with pytest.raises(ConfigFileError, match=r"^\[1\]\.name: Expected `str`, got `int`$"):
        config_file.convert_config([{"name": "a"}, {"name": 1}], list[Rule])
    with pytest.raises(ConfigFileError, match=r"^Expected `array`, got `null`$"):
        config_file.convert_config(None, list[Rule])


CONTENT = "apiVersion: {}\nkind: {}\nextra: 2026-13-45\n"
COMMANDS = {
    "scheduler": ["kube-scheduler", "--config"],
    "scheduler policy": ["kube-scheduler", "--policy-config-file"],
    "kubelet": ["kubelet", "--config"],
    "kube-proxy": ["kube-proxy", "--config"],
    "audit policy": ["up", "--audit-policy-file"],
    "encryption": ["up", "--encryption-provider-config"],
    "authentication": ["up", "--authentication-config"],
    "authorization": ["up", "--authorization-config"],
    "admission": ["up", "--admission-control-config-file"],
    "stages": ["up", "--hollow-stages"],
}
TEXTS = {
    "date": "kind: 2026-13-45\n",
    "not YAML": "kind: x\na: b: c\n",
    "deep": "[" * 5000,
    "duplicate": "a: 1\na: 2\n",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_commands_name_the_file_and_the_error(tmp_path: Path, words: list[str], text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    result = run_command(tmp_path, [*words, str(path)])
    assert result.returncode != 0
    assert str(path) in result.stderr
    assert "this is a bug" not in result.stderr
    assert "Traceback" not in result.stderr
    if text == TEXTS["not YAML"]:
        assert "line 2" in result.stderr


def run_command(directory: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sampan", *words]
    if words[0] == "up":
        command += ["--data-dir", str(directory / "data"), "--name", "config-file-test"]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
