"""No command line and no file makes a command of `sampan kubectl` print a traceback."""

import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from sampan import kubectl
from sampan.cli.main import cli
from sampan.testing import Cluster

READERS = ["get", "describe", "explain", "config", "kuberc", "api-resources", "api-versions", "version", "options"]
WORDS = [
    "-",
    "--",
    "-o",
    "-o=",
    "-ojsonpath={",
    "-ojsonpath={.a[",
    "-ocustom-columns=a",
    "-ocustom-columns-file=/",
    "-ogo-template={{.a",
    "-ogo-template={{",
    "-f",
    "-f=",
    "nowhere",
    "file",
    "/",
    "a/b",
    "a/b/c",
    "pods",
    "pod/x",
    "all",
    "all,x",
    ",",
    ",,",
    "-l",
    "a=(",
    "-l=a!",
    "--sort-by",
    "{.x",
    "-n",
    "ÿ",
    "💥",
    "-A",
    "--all-namespaces=x",
    "--field-selector",
    "=",
    "--raw",
    "/x?",
    "?",
    "--chunk-size",
    "99999999999999999999",
    "--as",
    "--token",
    "--server",
    "http://[",
    "https://127.0.0.1:1",
    "::1",
    "--kubeconfig",
    "/dev/null",
    "--context",
    "x",
    "--request-timeout",
    "-1s",
    "1ns",
    "--subresource",
    "/../",
    "--v",
    "-vvv",
    "--cluster",
    "--user",
    "--certificate-authority=/",
    "--client-key=file",
    "--tls-server-name=x",
    "--help",
    "-h",
    "get",
    "list",
    "set",
    "view",
    "x.y.z",
    "kind.v1.apps",
    "contexts.x.namespace",
    "--minify",
    "--flatten",
]
FILES = [
    "",
    "\x00",
    "[]",
    "a: b: c",
    "- 1",
    "kind: 5\napiVersion: 7\n",
    "kind: List\napiVersion: v1\nitems: [5]\n",
    "{",
]


@pytest.mark.parametrize("seed", range(8))
def test_no_command_line_prints_a_traceback(sampan_cluster: Cluster, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    known = [name for name in READERS if name in kubectl.COMMANDS]
    for _ in range(40):
        file = tmp_path / "file"
        file.write_text(dice.choice(FILES))
        args = [dice.choice(WORDS) for _ in range(dice.randint(0, 5))]
        words = [str(file) if word == "file" else word for word in args]
        words.insert(0 if dice.random() < 0.8 else len(words), dice.choice(known))
        config = dice.choice([str(sampan_cluster.kubeconfig), str(file), "nowhere"])
        outcome = CliRunner().invoke(cli, ["kubectl", *words], env={"KUBECONFIG": config, "HOME": str(tmp_path)})
        assert outcome.exception is None or isinstance(outcome.exception, SystemExit), words
        assert "this is a bug in Sampan" not in outcome.output, words
