"""The files in examples/ci: they parse, and their commands work."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sampan.cli import up
from tests.cli.command import Sampan
from tests.ports import free_port

EXAMPLES = Path(__file__).parents[2] / "examples" / "ci"
_NEEDS_NETWORK = ("pip install", "apt-get", "python3 -m venv", "go test", "pytest -n")


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.load((EXAMPLES / name).read_text(), yaml.BaseLoader)  # `on` stays a word
    return content


@pytest.fixture
def runner(tmp_path: Path) -> Sampan:
    """A home directory and a port of its own, with `sampan` on the path, as a runner has after pip install."""
    sampan = Sampan(tmp_path)
    sampan.environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_ENV": str(tmp_path / "github.env"),
        "SAMPAN_UP_SECURE_PORT": str(free_port()),
    }
    (tmp_path / "github.env").touch()
    return sampan


def run_script(sampan: Sampan, script: str) -> str:
    """Run lines of a job as the runner does, without those that need a network, and return what they printed."""
    lines = [line for line in script.splitlines() if not any(word in line for word in _NEEDS_NETWORK)]
    command = ["bash", "-e", "-c", "\n".join(lines).replace(".venv/bin/sampan", "sampan")]
    completed = subprocess.run(
        command, cwd=sampan.home, env=sampan.environment, capture_output=True, text=True, timeout=120
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    variables = Path(sampan.environment["GITHUB_ENV"]).read_text().splitlines()
    sampan.environment |= dict(line.split("=", 1) for line in variables)
    return completed.stdout


def test_github_actions(runner: Sampan) -> None:
    jobs = read("github-actions.yml")["jobs"]
    assert set(jobs) == {"cluster", "pytest", "envtest"}
    outputs = [run_script(runner, step["run"]) for step in jobs["cluster"]["steps"] if "run" in step]
    assert any("is ready at https://127.0.0.1:" in output for output in outputs)
    assert any('deployment "web" successfully rolled out' in output for output in outputs)
    assert outputs[-1] == "sampan: stopped\n"
    for step in jobs["envtest"]["steps"]:
        run_script(runner, step.get("run", ""))
    assert (Path(runner.environment["KUBEBUILDER_ASSETS"]) / "kube-apiserver").exists()


def test_gitlab_runs_the_same_commands() -> None:
    github, gitlab = read("github-actions.yml")["jobs"], read("gitlab-ci.yml")
    lines = [line for step in github["cluster"]["steps"] for line in step.get("run", "").splitlines()]
    job = gitlab["cluster"]
    commands = [line for part in ("before_script", "script", "after_script") for line in job[part]]
    assert [line for line in commands if line.startswith("sampan")] == [
        line for line in lines if line.startswith("sampan") and "get all,events" not in line
    ]
    assert [line.strip() for line in gitlab["pytest"]["script"]] == [
        step["run"] for step in github["pytest"]["steps"] if "run" in step
    ]
    assert any("sampan envtest path" in line for line in gitlab["envtest"]["before_script"])


def test_no_text_to_copy_installs_an_unpublished_name() -> None:
    """Sampan is not on the Python Package Index: whoever registers the name there could run code on every reader's
    machine."""
    root = EXAMPLES.parents[1]
    texts = [root / "README.md", *(root / "docs").rglob("*.md"), *(root / "examples").rglob("*.*")]
    commands = re.compile(r"pip3? (?:install|download|wheel) (?:-\S+ )*['\"]?sampan['\"]?(?:\s|$)", re.MULTILINE)
    assert [str(path) for path in texts if path.is_file() and commands.search(path.read_text(errors="replace"))] == []


def test_the_commands_of_the_container_image_are_valid() -> None:
    text = (EXAMPLES / "Containerfile").read_text()
    commands = [json.loads(words) for words in re.findall(r"^.*CMD (\[.*\])$", text, re.MULTILINE)]
    assert [words[:3] for words in commands] == [["sampan", "kubectl", "get"], ["up", "--store", "memory"]]
    context = up.command.make_context("up", commands[1][1:])
    assert (context.params["bind_address"], context.params["nodes"]) == ("0.0.0.0", 1)
