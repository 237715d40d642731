"""kubectl and `sampan kubectl` print the same for hundreds of command lines, which are in `comparison`."""

import difflib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from sampan.cli.main import cli
from sampan.testing import Cluster
from tests.conformance.programs import KUBECTL, BuildError, Release, build
from tests.e2e.kubectl import comparison, version_differences
from tests.e2e.kubectl.command import WITHOUT_GARBAGE_COLLECTION, Kubectl
from tests.e2e.kubectl.comparison import Area, Line, mask
from tests.e2e.kubectl.manifests import CONFIG_MAP
from tests.e2e.kubectl.namespace_objects import NamespaceObjects

AREAS = sorted(
    path.stem for path in Path(comparison.__file__).parent.glob("*.py") if path.stem not in ("__init__", "conftest")
)
SHARE_OF_DIFFERENCES = 0.05
TIMEOUT_S = 60

Outcome = tuple[int, str, str]


@dataclass(frozen=True, slots=True)
class RealKubectl:
    path: str
    version: tuple[int, int]

    @property
    def is_same_version(self) -> bool:
        """Whether the program is of the version that `sampan kubectl` imitates."""
        return self.version == version_differences.SAME


def find_kubectl() -> RealKubectl:
    """Return SAMPAN_KUBECTL, the program that `make operators` or `make conformance` built, or the one on the path.
    Skip the test where there is none of a version whose texts are known.

    With empty caches of Go, the build takes 210 s of CPU time: only SAMPAN_BUILD_OPERATORS asks for it.
    """
    release = Release(".".join(map(str, version_differences.SAME)))
    built = release.cache / KUBECTL.name
    if os.environ.get("SAMPAN_BUILD_OPERATORS"):
        try:
            build(KUBECTL, release)
        except BuildError as error:
            pytest.skip(str(error))
    program = os.environ.get("SAMPAN_KUBECTL") or (str(built) if built.exists() else shutil.which("kubectl"))
    if program is None:
        pytest.skip("there is no kubectl here: `make operators` builds one")
    version = version_of(program)
    if not version_differences.OLDEST <= version <= version_differences.SAME:
        pytest.skip(f"{program} is {version[0]}.{version[1]}, whose texts are not known: `make operators` builds v1.37")
    return RealKubectl(program, version)


def version_of(program: str) -> tuple[int, int]:
    done = subprocess.run([program, "version", "--client"], capture_output=True, text=True)
    match = re.search(r"Client Version: v(\d+)\.(\d+)\.", done.stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


@pytest.fixture(scope="module")
def real_kubectl(tmp_path_factory: pytest.TempPathFactory) -> RealKubectl:
    """A link named kubectl to the program, since some messages contain the name of the program."""
    program = find_kubectl()
    link = tmp_path_factory.mktemp("bin") / "kubectl"
    link.symlink_to(program.path)
    return replace(program, path=str(link))


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
    program: RealKubectl
    real: Side
    ours: Side
    differences: dict[str, str] = field(default_factory=dict)

    def prepare(self, area: Area, cluster: Cluster) -> None:
        for side in (self.real, self.ours):
            if area.setup:
                cluster.apply(area.setup, namespace=side.namespace)
            for line in map(Line, area.ready):
                code, out, err = self.run_real(line, side)
                assert code == 0, f"kubectl {line.text}: {out}{err}"

    def compare(self, line: Line) -> None:
        expected, outcome = (
            self.mask_outcome(line, self.run_real(line, self.real)),
            self.mask_outcome(line, self.run_ours(line)),
        )
        if outcome != expected and not self.is_known_difference(line):
            self.differences[line.key] = f"$ {line.key}\n{difference(expected, outcome)}"

    def is_known_difference(self, line: Line) -> bool:
        """Whether an older kubectl is known to answer this line differently."""
        return not self.program.is_same_version and bool(version_differences.reason_not_to_compare(line.text))

    def run_real(self, line: Line, side: Side) -> Outcome:
        done = subprocess.run(
            [self.program.path, *side.words(line)],
            input=line.stdin,
            capture_output=True,
            text=True,
            env=WITHOUT_GARBAGE_COLLECTION | side.environment(line),
            timeout=TIMEOUT_S,
        )
        return done.returncode, done.stdout, done.stderr

    def run_ours(self, line: Line) -> Outcome:
        words = ["kubectl", *self.ours.words(line)]
        done = CliRunner().invoke(cli, words, input=line.stdin, env=self.ours.environment(line), prog_name="sampan")
        return done.exit_code, done.stdout, done.stderr

    def mask_outcome(self, line: Line, outcome: Outcome) -> Outcome:
        code, out, err = outcome
        namespaces = (self.real.namespace, self.ours.namespace)
        homes = (str(self.real.home), str(self.ours.home), str(self.real.kubeconfig), str(self.ours.kubeconfig))
        for text in homes:
            out, err = out.replace(text, "PATH"), err.replace(text, "PATH")
        out, err = mask(out, namespaces=namespaces), mask(err, namespaces=namespaces)
        if not self.program.is_same_version:
            out, err = version_differences.unify(out), version_differences.unify(err)
        return code, sort_parts(out, line.unordered) if line.unordered else out, err


def sort_parts(text: str, separator: str) -> str:
    return separator.join(sorted(text.split(separator)))


def difference(expected: Outcome, outcome: Outcome) -> str:
    left, right = (f"exit code {code}\n{out}\nstandard error:\n{err}" for code, out, err in (expected, outcome))
    lines = difflib.unified_diff(left.splitlines(), right.splitlines(), "kubectl", "sampan kubectl", lineterm="", n=1)
    return "\n".join(lines)


@contextmanager
def comparison_in(directory: Path, *, program: RealKubectl, cluster: Cluster) -> Iterator[Comparison]:
    """A comparison in two new namespaces, with home directories below a directory."""
    with cluster.namespace("same") as first, cluster.namespace("same") as second:
        sides = []
        for namespace in (first, second):
            home = directory / f"home-{namespace}"
            home.mkdir()
            kubeconfig = home / "kubeconfig"
            shutil.copy(cluster.kubeconfig_for(namespace), kubeconfig)
            sides.append(Side(namespace=namespace, kubeconfig=kubeconfig, home=home))
        yield Comparison(program=program, real=sides[0], ours=sides[1])


@pytest.mark.parametrize("name", AREAS)
def test_same_output(
    comparison_cluster: Cluster, real_kubectl: RealKubectl, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not real_kubectl.is_same_version and name not in version_differences.AREAS:
        pytest.skip("compared with kubectl v1.37, which `make operators` builds")
    area: Area = import_module(f"{comparison.__name__}.{name}").AREA
    for path, text in area.files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.chdir(tmp_path)
    with comparison_in(tmp_path, program=real_kubectl, cluster=comparison_cluster) as both:
        both.prepare(area, comparison_cluster)
        for line in area.all_lines():
            both.compare(line)
    surprises = [text for line, text in both.differences.items() if line not in area.differences]
    if surprises:
        pytest.fail(f"{len(surprises)} of {len(area.lines)} lines differ\n\n" + "\n\n".join(surprises), pytrace=False)
    if not real_kubectl.is_same_version:
        return
    obsolete = [line for line in area.differences if line not in both.differences]
    assert not obsolete, "these lines do not differ: remove them from `differences` and docs/compatibility.md"
    assert len(area.differences) <= SHARE_OF_DIFFERENCES * len(area.lines)


def test_same_description_with_events(comparison_cluster: Cluster, real_kubectl: RealKubectl, tmp_path: Path) -> None:
    """A kind without a describer of its own shows the events that name its UID."""
    cluster = comparison_cluster
    with comparison_in(tmp_path, program=real_kubectl, cluster=cluster) as both:
        for namespace in (both.real.namespace, both.ours.namespace):
            (lease,) = cluster.apply(LEASE, namespace=namespace)
            about = {"kind": "Lease", "name": "mine", "namespace": namespace, "uid": lease["metadata"]["uid"]}
            for number, source in ((1, {"component": "tester"}), (2, {"component": "tester", "host": "here"})):
                event = {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "metadata": {"name": f"mine.{number}"},
                    "involvedObject": about,
                    "reason": "Happened",
                    "message": f"the {number}. time",
                    "type": "Normal",
                    "count": number,
                    "source": source,
                    "firstTimestamp": lease["metadata"]["creationTimestamp"],
                    "lastTimestamp": lease["metadata"]["creationTimestamp"],
                }
                cluster.apply(event, namespace=namespace)
        both.compare(Line("describe lease mine"))
        assert both.differences == {}
        assert "the 2. time" in both.run_ours(Line("describe lease mine"))[1]


LEASE = "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: mine}\nspec: {holderIdentity: me}\n"


def test_same_watch(kubectl: Kubectl, objects: NamespaceObjects, sampan_kubeconfig: Path, kubectl_home: Path) -> None:
    """Both commands watch the same namespace and print the same except for ages."""
    ours = Kubectl(program=sys.executable, kubeconfig=sampan_kubeconfig, home=kubectl_home)
    objects.apply(CONFIG_MAP)
    words = ("get", "configmaps", "-w")
    with kubectl.running(*words) as real, ours.running("-m", "sampan", "kubectl", *words) as own:
        assert read_lines(own, 3) == read_lines(real, 3)
        objects.apply(CONFIG_MAP.replace("\ndata:", "\ndata:\n  shape: round"))
        assert read_lines(own, 1) == read_lines(real, 1) == [["settings", "3"]]
        objects.delete("configmap/settings")
        assert read_lines(own, 1) == read_lines(real, 1) == [["settings", "3"]]


def read_lines(process: "subprocess.Popen[str]", count: int) -> list[list[str]]:
    """Return the first two cells of the next lines."""
    assert process.stdout is not None
    return [process.stdout.readline().split()[:2] for _ in range(count)]
