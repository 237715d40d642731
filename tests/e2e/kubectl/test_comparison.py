"""kubectl and `sampan kubectl` answer hundreds of command lines in the same way; `comparison` has the lines."""

import difflib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from sampan.cli.main import cli
from sampan.testing import Cluster
from tests.conformance.programs import KUBECTL, BuildError, build, cache_directory
from tests.e2e.kubectl import comparison
from tests.e2e.kubectl.comparison import Area, Line, mask

AREAS = sorted(
    path.stem for path in Path(comparison.__file__).parent.glob("*.py") if path.stem not in ("__init__", "conftest")
)
SHARE_OF_DIFFERENCES = 0.05
MINOR_VERSION = "v1.36."
TIMEOUT_S = 60

Outcome = tuple[int, str, str]


def find_kubectl() -> str:
    """Return the kubectl of the version that Sampan implements: SAMPAN_KUBECTL, the one on the path, or one that is
    built from Go modules. Skip the test where there is none: the texts of other versions differ."""
    for program in (os.environ.get("SAMPAN_KUBECTL"), shutil.which("kubectl")):
        if (
            program
            and MINOR_VERSION in subprocess.run([program, "version", "--client"], capture_output=True, text=True).stdout
        ):
            return program
    try:
        return str(build(KUBECTL, cache_directory()))
    except BuildError as error:
        pytest.skip(f"there is no kubectl {MINOR_VERSION}x here: {error}")


@pytest.fixture(scope="module")
def real_kubectl(tmp_path_factory: pytest.TempPathFactory) -> str:
    """kubectl by that name: some of its messages contain the name of the program."""
    program = tmp_path_factory.mktemp("bin") / "kubectl"
    program.symlink_to(find_kubectl())
    return str(program)


@pytest.fixture(scope="module")
def comparison_cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as cluster:
        yield cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    namespace: str
    kubeconfig: Path
    home: Path

    def environment(self, line: Line) -> dict[str, str]:
        editor = {"KUBE_EDITOR": line.editor} if line.editor else {}
        names = {"PATH": os.environ["PATH"], "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig)}
        own = {name: value.replace("{home}", str(self.home)) for name, value in line.environment.items()}
        return names | editor | own

    def words(self, line: Line) -> list[str]:
        return line.words(self.namespace, str(self.home))


@dataclass(slots=True, kw_only=True)
class Comparison:
    program: str
    real: Side
    ours: Side
    differences: dict[str, str] = field(default_factory=dict)

    def prepare(self, area: Area) -> None:
        lines = [Line("create -f -", stdin=area.setup)] if area.setup else []
        for line in [*lines, *map(Line, area.ready)]:
            for side in (self.real, self.ours):
                code, out, err = self.run_real(line, side)
                assert code == 0, f"kubectl {line.text}: {out}{err}"

    def compare(self, line: Line) -> None:
        expected, outcome = self.masked(line, self.run_real(line, self.real)), self.masked(line, self.run_ours(line))
        if outcome != expected:
            self.differences[line.text] = f"$ kubectl {line.text}\n{difference(expected, outcome)}"

    def run_real(self, line: Line, side: Side) -> Outcome:
        done = subprocess.run(
            [self.program, *side.words(line)],
            input=line.stdin,
            capture_output=True,
            text=True,
            env=side.environment(line),
            timeout=TIMEOUT_S,
        )
        return done.returncode, done.stdout, done.stderr

    def run_ours(self, line: Line) -> Outcome:
        words = ["kubectl", *self.ours.words(line)]
        done = CliRunner().invoke(cli, words, input=line.stdin, env=self.ours.environment(line), prog_name="sampan")
        return done.exit_code, done.stdout, done.stderr

    def masked(self, line: Line, outcome: Outcome) -> Outcome:
        code, out, err = outcome
        namespaces = (self.real.namespace, self.ours.namespace)
        homes = (str(self.real.home), str(self.ours.home), str(self.real.kubeconfig), str(self.ours.kubeconfig))
        for text in homes:
            out, err = out.replace(text, "PATH"), err.replace(text, "PATH")
        out, err = mask(out, namespaces=namespaces), mask(err, namespaces=namespaces)
        return code, "\n".join(sorted(out.split("\n"))) if line.is_sorted else out, err


def difference(expected: Outcome, outcome: Outcome) -> str:
    left, right = (f"exit code {code}\n{out}\nstandard error:\n{err}" for code, out, err in (expected, outcome))
    lines = difflib.unified_diff(left.splitlines(), right.splitlines(), "kubectl", "sampan kubectl", lineterm="", n=1)
    return "\n".join(lines)


@pytest.mark.parametrize("name", AREAS)
def test_same_output(
    comparison_cluster: Cluster, real_kubectl: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    area: Area = import_module(f"{comparison.__name__}.{name}").AREA
    for path, text in area.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.chdir(tmp_path)
    cluster = comparison_cluster
    with cluster.namespace("same") as first, cluster.namespace("same") as second:
        sides = []
        for namespace in (first, second):
            home = tmp_path / f"home-{namespace}"
            home.mkdir()
            kubeconfig = home / "kubeconfig"
            shutil.copy(cluster.kubeconfig_for(namespace), kubeconfig)
            sides.append(Side(namespace=namespace, kubeconfig=kubeconfig, home=home))
        both = Comparison(program=real_kubectl, real=sides[0], ours=sides[1])
        both.prepare(area)
        for line in area.all_lines():
            both.compare(line)
    surprises = [text for line, text in both.differences.items() if line not in area.differences]
    if surprises:
        pytest.fail(f"{len(surprises)} of {len(area.lines)} lines differ\n\n" + "\n\n".join(surprises), pytrace=False)
    obsolete = [line for line in area.differences if line not in both.differences]
    assert not obsolete, "these lines do not differ: remove them from `differences` and docs/compatibility.md"
    assert len(area.differences) <= SHARE_OF_DIFFERENCES * len(area.lines)
