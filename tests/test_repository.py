"""The repository keeps its own promises: commands, documents, names, layers."""

import ast
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from sampan.api.kubernetes_version import MINOR_VERSION

FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}

BANNED_WORDS = frozenset({"told", "said", "folder", "folders", "fault", "faults", "verdict", "verdicts", "telling"})
"""Words that are no part of any name in the source: Kubernetes and Python have a word for each."""
# fmt: off
BANNED_NAMES = frozenset({
    "answer", "answers", "asked", "each", "followed", "following", "found", "given", "gone", "heard", "made", "meant",
    "one", "placed", "posted", "seen", "sought", "taken", "wanted",
})
"""Names of modules, classes, functions, parameters and variables that do not tell what the thing is."""
BANNED_CLASSES = frozenset({
    "Answer", "Change", "Claims", "Commitment", "Desk", "Facts", "Fate", "Feed", "Following", "Form", "Found", "Gate",
    "Guard", "Key", "Kind", "Known", "Leniency", "Needs", "Outcome", "Part", "Parts", "Place", "Plan", "Presence",
    "Present", "Refused", "Room", "Seen", "Served", "Shown", "Sort", "Special", "Taken", "Term", "Terms", "Trail",
    "Verdict", "Wanted", "Write",
})
"""Class names that could mean many things: the name says which plan, which change, which key."""
BANNED_MODULES = frozenset({
    "about", "claims", "elsewhere", "granted", "ledger", "place", "plan", "room", "sorts", "stock", "terms", "wants",
    "words",
})
NOUNS_IN_ING = frozenset({
    "accounting", "autoscaling", "binding", "encoding", "housekeeping", "mapping", "missing", "ring", "rolling",
    "routing", "scheduling", "signing", "streaming", "string", "testing", "waiting",
})
# fmt: on
"""Endings in -ing that modules may have; other gerunds are no nouns."""
# fmt: off
PREPOSITIONS = frozenset({
    "about", "after", "as", "at", "before", "behind", "below", "beyond", "by", "for", "from", "in", "inside", "into",
    "of", "on", "over", "since", "through", "to", "until", "with", "within", "without",
})
IRREGULAR_PARTICIPLES = frozenset({
    "bound", "built", "chosen", "drawn", "frozen", "grown", "held", "hidden", "kept", "known", "left", "lost", "met",
    "sent", "shown", "spent", "torn", "written",
})
NO_PARTICIPLES = frozenset({
    "binding", "docstring", "embed", "exceed", "feed", "heading", "keyring", "mapping", "need", "ping", "seed",
    "string", "substring", "warning",
})
# fmt: on
"""Verbs and nouns that only look like participles."""
BANNED_IN_CONSTANTS = frozenset({"CHANCE", "KEPT", "LARGEST", "LEAST", "LONGEST", "MOST", "PATIENCE", "SHORTEST"})
"""Words of constants for which there are usual ones: MAX, MIN, CACHED, TIMEOUT, RANDOM."""
# fmt: off
BANNED_IN_FUNCTIONS = frozenset({
    "about", "around", "at", "here", "held", "kept", "known", "least", "most", "rest", "room", "what", "where", "whose",
})
# fmt: on
"""Words that do not say what a parameter or a variable holds."""
NAMED_ELSEWHERE = frozenset(
    {
        "_masked",  # of CEL's library, like _named
        "_named",
        "expired",  # reasons of the API's Status, like unauthorized
        "unauthorized",
        "privileged",  # a control of the Pod Security Standards
        "requested",  # of a node, in scheduler plugins by node
        "required",  # field.Required of Kubernetes
    }
)
"""Functions that a specification names by one participle."""
FAULT_INJECTION = frozenset({"Fault", "FaultEffect", "FaultInjector", "FaultRule", "_faults", "fault", "faults"})
"""The names of injected faults in `sampan.testing`; an error that code finds is an error, not a fault."""
ALLOWED_NAMES = frozenset({"Gone", "gone", "ONE", "page_faults", "major_page_faults"}) | FAULT_INJECTION
"""The API's reason Gone, the number one, and names of the kernel's statistics."""

# fmt: off
FOREIGN_NAMES = frozenset({
    "bridge", "cryptography", "daemon", "dynamic", "edit", "endpointslice", "endpointslicemirroring",
    "etcdserverpb", "informers", "interpreter", "ipallocator", "jsonmergepatch", "kind", "kubeadm", "nodeipam",
    "podgc", "portallocator", "rest", "servicecidrs", "tainteviction", "ttlafterfinished", "validation",
})
# fmt: on
"""Packages of Kubernetes, libraries and programs that docstrings of packages compare themselves with."""

_VIRTUAL = "the loop of the test has virtual time"
_RANDOM = "the random moment is what the test tries out"
_SAMPLES = "it samples the process or the event loop at regular intervals"
SLEEPS = {
    "eventually.py": "the polling loop that all tests share",
    "apiserver/http/test_pump.py": _VIRTUAL,
    "e2e/test_huge_counts_http.py": _SAMPLES,
    "e2e/test_loop_lag.py": _SAMPLES,
    "e2e/test_memory_soak.py": _SAMPLES + ", and writes for a given time",
    "growth/attack.py": _SAMPLES,
    "growth/loop_meter.py": _SAMPLES,
    "kubelet/volumes/test_manager_restart.py": _RANDOM,
    "machinery/informer/test_informer.py": _RANDOM,
    "network/pods/test_bridge_crash.py": _RANDOM,
    "network/policy/policy_lab.py": "a packet that is dropped leaves no trace to wait for",
    "storage/cacher/test_follower.py": _VIRTUAL,
    "storage/cacher/test_freshness.py": _VIRTUAL,
    "storage/cacher/test_reads.py": _VIRTUAL,
    "storage/cacher/test_reflector.py": _VIRTUAL,
    "storage/cacher/test_watcher.py": _VIRTUAL,
    "storage/etcd/test_reader.py": _VIRTUAL,
    "storage/test_etcd_cluster.py": "it kills members for a given time",
}
"""The files of tests that may sleep or count the time, and why. All others use `tests.eventually`, a clock that they
advance, or an event."""

_COMPARES = "it compares the times of two sizes"
_USERS_COMPARE = "it measures for tests that have the limits"
CPU_TIMES = {
    "controllers/test_controllers_huge_counts.py": _COMPARES,
    "e2e/test_hostile_bodies.py": _COMPARES,
    "growth/cost.py": _COMPARES,
    "growth/loop_meter.py": _USERS_COMPARE,
    "machinery/telemetry/test_loop_watchdog.py": "it blocks the event loop for that time",
    "scheduler/event_loop_hold.py": _USERS_COMPARE,
    "test_regular_expressions.py": _COMPARES,
}
"""The files of tests that measure CPU time without `tests.input_cost` or a calibration, and why."""

NO_SUBJECTS = frozenset({"it", "its", "of", "that", "them", "they", "what", "which", "who", "whom", "whose"})
"""Words with which a name says nothing about its subject: `test_what_is_refused`."""

REGISTRY_HOSTS = ("pypi" + ".org", "pythonhosted" + ".org", "deb.debian" + ".org", "golang" + ".org", "npmjs" + ".org")
MACHINE_PATHS = ("/ro" + "ot/", "/wo" + "rk/", "/ho" + "me/")


@pytest.fixture(scope="module")
def tracked(repository: Path) -> list[Path]:
    """Files under version control; without git, what does not look like a build product."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if shutil.which("git"):
        response = subprocess.run(listed, cwd=repository, capture_output=True, text=True)
        if names := [name for name in response.stdout.split("\0") if (repository / name).is_file()]:
            return [repository / name for name in names]
    places = ["src", "tests", "tools", "benchmarks", "docs"]
    inside = [path for place in places for path in (repository / place).rglob("*") if "__pycache__" not in path.parts]
    return [path for path in [*inside, *repository.iterdir()] if path.is_file()]


@pytest.fixture(scope="module")
def modules(tracked: list[Path]) -> list[Path]:
    return [path for path in tracked if path.suffix == ".py"]


def targets(makefile: str) -> set[str]:
    return set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))


@pytest.mark.parametrize("document", ["README.md", "docs/development.md", "benchmarks/README.md"])
def test_documented_commands_exist(repository: Path, document: str) -> None:
    named = set(re.findall(r"`make ([a-z]+)", (repository / document).read_text()))
    assert named
    assert named <= targets((repository / "Makefile").read_text())


def test_readme_has_the_two_commands(repository: Path) -> None:
    text = (repository / "README.md").read_text()
    assert "make run" in text
    assert "make test" in text


def test_make_alone_explains_every_target(repository: Path) -> None:
    shown = subprocess.run(["make", "--no-print-directory"], cwd=repository, capture_output=True, text=True, check=True)
    assert set(re.findall(r"^make ([a-z]+)", shown.stdout, re.MULTILINE)) == targets(
        (repository / "Makefile").read_text()
    )


@pytest.mark.parametrize("script", [".ci/run", "tools/setup.sh", "tools/engines.sh", "tools/check.sh"])
def test_scripts_can_be_run(repository: Path, script: str) -> None:
    path = repository / script
    assert path.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(path)], check=True)


def test_continuous_integration_runs_the_tests(repository: Path) -> None:
    assert (repository / ".ci/run").read_text().rstrip().endswith("make test")


def test_changelog_has_an_open_section(repository: Path) -> None:
    text = (repository / "CHANGELOG.md").read_text()
    section = re.search(r"^## \[?Unreleased\]?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section
    assert re.search(r"^- \S", section[1], re.MULTILINE)


def test_every_module_says_what_it_is_for(modules: list[Path], repository: Path) -> None:
    spoken_for = [path for path in modules if repository / "tests" not in path.parents]
    assert [path for path in spoken_for if not _docstring(path)] == []


def test_every_package_says_what_belongs_there(repository: Path) -> None:
    directories = {path.parent for path in (repository / "src/sampan").rglob("*.py")}
    empty = [directory for directory in directories if not _docstring(directory / "__init__.py")]
    assert [str(directory) for directory in empty] == []


def test_package_docstrings_name_what_exists(repository: Path) -> None:
    """A word in backticks in the docstring of a package is a module or a name in the package, unless it is foreign."""
    stale = []
    for package in {path.parent for path in (repository / "src/sampan").rglob("*.py")}:
        words = set(re.findall(r"`([a-z][a-z_]+)`", _docstring(package / "__init__.py") or ""))
        below = [*package.rglob("*.py"), *package.rglob("*.proto")]
        modules = {path.stem for path in below} | {path.parent.name for path in below}
        code = "".join(re.sub(r'""".*?"""', "", path.read_text(), flags=re.DOTALL) for path in package.glob("*.py"))
        names = set(re.findall(r"\w+", code))
        stale += [f"{package.relative_to(repository)}: {word}" for word in words - modules - names - FOREIGN_NAMES]
    assert sorted(stale) == []


def _docstring(module: Path) -> str | None:
    return _summary(module).docstring if module.exists() else None


@dataclass(frozen=True, slots=True)
class ModuleSummary:
    """What the tests ask about a module. Parsing all modules takes seconds, and their syntax trees take gigabytes."""

    docstring: str | None
    dotted_strings: frozenset[str]
    """Strings such as `sampan.runtimes.choice.detect`."""
    definitions: list[tuple[int, str, bool]]
    """The line and the name of each definition, and whether it is a class."""
    functions: list[tuple[int, str]]
    """The line and the name of each function that is called like one: no properties and no context managers."""
    public_classes: list[str]
    sleeps: bool
    called_names: frozenset[str]
    """The last parts of the names of everything that is called: `sleep` of `time.sleep(1)`."""


@cache
def _summary(module: Path) -> ModuleSummary:
    tree = ast.parse(module.read_bytes())
    nodes = list(ast.walk(tree))
    strings = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    return ModuleSummary(
        docstring=ast.get_docstring(tree),
        dotted_strings=frozenset(text for text in strings if re.fullmatch(r"sampan(\.\w+)+", text)),
        definitions=list(_defined_names(nodes)),
        functions=list(_called_functions(nodes)),
        public_classes=[name for name in classes if not name.startswith("_")],
        sleeps=_sleeps(nodes),
        called_names=frozenset(
            getattr(node.func, "attr", getattr(node.func, "id", "")) for node in nodes if isinstance(node, ast.Call)
        ),
    )


def test_names_in_strings_exist(modules: list[Path], repository: Path) -> None:
    """A string such as `sampan.runtimes.choice.detect`, which is imported or patched by name, names something."""
    dotted = {text for path in modules for text in _summary(path).dotted_strings} - {"sampan.log"}
    assert dotted
    assert [text for text in sorted(dotted) if not _exists(text, repository)] == []


def _exists(dotted: str, repository: Path) -> bool:
    """Whether the longest part of a name that is a module contains the next word of the name. Importing all modules to
    look closer would take more time than all other tests here."""
    words = dotted.split(".")
    directory = repository / "src"
    while words and (directory / words[0]).is_dir():
        directory /= words.pop(0)
    module = directory / f"{words[0]}.py" if words else directory / "__init__.py"
    if module.is_file():
        words = words[1:]
    else:
        module = directory / "__init__.py"
    return not words or re.search(rf"\b{words[0]}\b", module.read_text()) is not None


def test_no_file_is_a_drawer_for_odds_and_ends(modules: list[Path]) -> None:
    assert [path for path in modules if FORBIDDEN_NAMES & {*path.stem.split("_"), path.parent.name}] == []


def test_names_say_what_things_are(repository: Path) -> None:
    """The glossary has the words to use; see also the chapter on language in CONTRIBUTING.md."""
    source = repository / "src/sampan"
    named_by_others = (source / "api/types", source / "host/netlink/constants.py")
    handwritten = [
        path for path in source.rglob("*.py") if not any(path.is_relative_to(place) for place in named_by_others)
    ]
    modules = [str(path) for path in handwritten if _is_banned_module(path) and not _injects_faults(path)]
    names = [
        f"{path}:{line}: {name}"
        for path in handwritten
        for line, name, is_class in _summary(path).definitions
        if (_is_banned_name(name) and not _is_name_of_injected_fault(name, path))
        or (is_class and name.strip("_") in BANNED_CLASSES)
    ]
    assert modules + names == []


def test_names_in_tests_say_what_things_are(repository: Path) -> None:
    tests = repository / "tests"
    names = [
        f"{path}:{line}: {name}"
        for path in tests.rglob("*.py")
        for line, name, _ in _summary(path).definitions
        if _is_banned_name(name) and not _is_name_of_injected_fault(name, path)
    ]
    assert names == []


def test_functions_are_verbs(repository: Path) -> None:
    """A function named by one participle or preposition (`changed`, `of`) does not tell what it does."""
    names = [
        f"{path}:{line}: {name}"
        for directory in ("src", "tests")
        for path in (repository / directory).rglob("*.py")
        for line, name in _summary(path).functions
        if name not in NAMED_ELSEWHERE and _is_participle_or_preposition(name.strip("_"))
    ]
    assert names == []


def _is_participle_or_preposition(name: str) -> bool:
    if "_" in name or name in NO_PARTICIPLES:
        return False
    return name in PREPOSITIONS | IRREGULAR_PARTICIPLES or name.endswith(("ed", "ing"))


def test_constants_have_the_usual_words(repository: Path) -> None:
    source = repository / "src/sampan"
    names = [
        f"{path}:{line}: {name}"
        for path in source.rglob("*.py")
        if source / "api/types" not in path.parents
        for line, name, _ in _summary(path).definitions
        if name.isupper() and BANNED_IN_CONSTANTS & set(name.split("_"))
    ]
    assert names == []


def test_parameters_and_locals_are_nouns(repository: Path) -> None:
    source = repository / "src/sampan"
    names = {
        f"{path.relative_to(source)}: {function.name}: {name}"
        for path in source.rglob("*.py")
        if source / "api/types" not in path.parents
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for name in _bound_names(function) & BANNED_IN_FUNCTIONS
    }
    assert sorted(names) == []


def _bound_names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the names of the parameters and variables of a function and of the functions inside of it."""
    nodes = list(ast.walk(function))
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return names | {node.arg for node in nodes if isinstance(node, ast.arg)}


def test_names_of_tests_begin_with_their_subject(repository: Path) -> None:
    """A failure report shows path and name of a test, which must tell the behavior that is broken."""
    names = [
        f"{path}:{line}: {name}"
        for path in (repository / "tests").rglob("test_*.py")
        for line, name, _ in _summary(path).definitions
        if name.startswith("test_") and name.split("_")[1] in NO_SUBJECTS
    ]
    assert names == []


def test_public_classes_have_different_names(repository: Path) -> None:
    source, where = repository / "src/sampan", defaultdict(list)
    for path in source.rglob("*.py"):
        if source / "api/types" not in path.parents:
            for name in _summary(path).public_classes:
                where[name].append(str(path.relative_to(source)))
    assert {name: files for name, files in where.items() if len(files) > 1} == {}


def _is_name_of_injected_fault(name: str, path: Path) -> bool:
    return "fault" in name.lower() and (_injects_faults(path) or "inject" in name.lower())


def _injects_faults(path: Path) -> bool:
    """Whether the module belongs to the test library, whose faults are injected, not found."""
    return "testing" in path.parts


def _is_banned_module(path: Path) -> bool:
    name = path.parent.name if path.stem == "__init__" else path.stem
    words = set(name.split("_"))
    is_gerund = any(word.endswith("ing") and word not in NOUNS_IN_ING for word in words)
    is_banned = bool(words & BANNED_WORDS) or name in BANNED_MODULES | BANNED_NAMES
    return is_gerund or (is_banned and name not in FAULT_INJECTION)


def _is_banned_name(name: str) -> bool:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).strip("_").lower().split("_")
    return name not in ALLOWED_NAMES and (bool(set(words) & BANNED_WORDS) or "_".join(words) in BANNED_NAMES)


def _defined_names(nodes: list[ast.AST]) -> Iterator[tuple[int, str, bool]]:
    """Yield the line and the name of each definition, and whether it is a class."""
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name, False
            case ast.ClassDef(name=name):
                yield node.lineno, name, True
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name, False


def _called_functions(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
            is_special = node.name.startswith("__") or re.search(r"property|contextmanager|fixture", decorators)
            if not is_special:
                yield node.lineno, node.name


def test_only_listed_tests_sleep(repository: Path) -> None:
    """A fixed sleep before an assertion is too short on a busy machine and too long on others."""
    tests = repository / "tests"
    sleeping = {str(path.relative_to(tests)) for path in tests.rglob("*.py") if _summary(path).sleeps}
    assert sleeping == set(SLEEPS)


def _sleeps(nodes: list[ast.AST]) -> bool:
    """Whether code sleeps, other than for one turn of the event loop, or loops until a time."""
    sleeps = [node for node in nodes if isinstance(node, ast.Call) and _is_sleep(node.func)]
    if any(not isinstance(call.args[0], ast.Constant) or call.args[0].value != 0 for call in sleeps):
        return True
    loops = [node for node in nodes if isinstance(node, ast.While)]
    comparisons = [node for loop in loops for node in ast.walk(loop) if isinstance(node, ast.Compare)]
    return any("time.monotonic()" in ast.unparse(comparison) for comparison in comparisons)


def _is_sleep(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(attr="sleep", value=ast.Name(id="asyncio" | "time")):
            return True
    return False


def test_limits_of_cpu_time_grow_on_a_busy_machine(repository: Path) -> None:
    """A second of CPU time does less while other processes use the caches and the other thread of a core."""
    tests = repository / "tests"
    modules = {path: _summary(path).called_names for path in tests.rglob("*.py")}
    measuring = {path for path, called in modules.items() if called & {"process_time", "thread_time"}}
    scaling = {path for path, called in modules.items() if called & {"calibration", "is_cpu_time_within"}}
    assert {str(path.relative_to(tests)) for path in measuring - scaling} == set(CPU_TIMES)


def test_patched_attributes_have_owners_that_the_type_checker_knows(repository: Path) -> None:
    """mypy sees that the module of `setattr(module, "NAME", value)` exists, not that of `setattr("module.NAME", …)`."""
    patches = re.compile(r'\bsetattr\(\s*"')
    paths = (repository / "tests").rglob("*.py")
    assert not [str(path) for path in paths if path.name != "test_repository.py" and patches.search(path.read_text())]


def test_links_in_documents_lead_somewhere(tracked: list[Path]) -> None:
    documents = [path for path in tracked if path.suffix == ".md"]
    broken = [
        (document.name, link) for document in documents for link in local_links(document) if not is_valid_link(link)
    ]
    assert broken == []


def local_links(document: Path) -> list[tuple[Path, str]]:
    """Targets of Markdown and HTML links to other files, and the heading each names."""
    text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
    matches = re.findall(r"\]\(([^)\s]+)\)|(?:src|href|srcset)=\"([^\"]+)\"", text)
    links = ["".join(pair) for pair in matches]
    split = [link.partition("#") for link in links if "://" not in link and not link.startswith("mailto:")]
    return [(document.parent / name if name else document, heading) for name, _, heading in split]


def is_valid_link(link: tuple[Path, str]) -> bool:
    path, heading = link
    if not path.exists():
        return False
    return not heading or heading in {anchor(line) for line in path.read_text().splitlines() if line.startswith("#")}


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lstrip("# ").lower()).replace(" ", "-")


def test_documents_name_files_that_exist(repository: Path, tracked: list[Path]) -> None:
    """A path in backquotes that starts at the top of the repository is there."""
    places = ("src", "tests", "tools", "docs", "benchmarks", ".ci")
    pattern = re.compile(r"`((?:" + "|".join(map(re.escape, places)) + r")/[\w./-]+)`")
    documents = [path for path in tracked if path.suffix == ".md"]
    missing = [(path.name, name) for path in documents for name in pattern.findall(path.read_text())]
    assert [(path, name) for path, name in missing if not (repository / name).exists()] == []


def test_docs_index_lists_every_page(repository: Path) -> None:
    index = (repository / "docs/README.md").read_text()
    pages = [path.name for path in (repository / "docs").glob("*.md") if path.name != "README.md"]
    assert pages
    assert [page for page in pages if f"({page})" not in index] == []


@pytest.mark.parametrize("words", [REGISTRY_HOSTS, MACHINE_PATHS], ids=["registry hosts", "paths of one machine"])
def test_nothing_is_tied_to_a_place(tracked: list[Path], words: tuple[str, ...]) -> None:
    pattern = re.compile(rb"(?<![\w.$/-])(?:" + b"|".join(re.escape(word.encode()) for word in words) + rb")")
    free = [path for path in tracked if path.name not in ("go.mod", "go.sum")]  # names of Go modules begin with a host
    assert [path for path in free if pattern.search(path.read_bytes())] == []


def test_generated_code_is_marked(repository: Path) -> None:
    """Generated modules say so in their first line, and lie where nothing else does but what they stand on."""
    types = repository / "src/sampan/api/types"
    marked = {path for path in (repository / "src").rglob("*.py") if "Generated by" in path.read_text().split("\n")[0]}
    assert marked == {path for path in types.glob("*.py") if path.stem not in ("__init__", "base")}
    assert "src/sampan/api/types/*_v*.py linguist-generated" in (repository / ".gitattributes").read_text()


@pytest.mark.parametrize("module", ["api.scheme", "host.clock", "storage", "storage.cacher", "storage.sqlite"])
def test_importing_loads_no_large_library(module: str) -> None:
    heavy = {"aiohttp", "cryptography", "google.protobuf", "grpc", "numpy", "rich"}
    code = f"import sys, sampan.{module}; print(*({heavy!r} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []


FORBIDDEN_IMPORTS = {
    ("api.schema.tree", "sampan.machinery.errors"),
    ("api.schema.tree", "numpy"),
    ("host.clock", "sampan.api.names"),
    ("machinery.errors", "sampan.storage.backend"),
    ("scheduler.imported", "sampan.storage.backend"),
    ("controllers.imported", "sampan.runtimes"),
    ("kubelet.imported", "sampan.apiserver"),
    ("kubectl.client.factory", "sampan.kubectl.objects"),
}
"""A module of the package, which may be new, and what it must not import."""


def test_import_contracts_catch_forbidden_imports(repository: Path, tmp_path: Path) -> None:
    """Forbidden imports and a package without a place, put into a copy of the package, are found. One run looks for all
    of them, because each reads the whole package."""
    package = tmp_path / "sampan"
    shutil.copytree(repository / "src/sampan", package, ignore=shutil.ignore_patterns("types", "__pycache__"))
    shutil.copy(repository / "pyproject.toml", tmp_path)
    assert _lint_imports(tmp_path).returncode == 0
    for importer, imported in FORBIDDEN_IMPORTS:
        with (package / f"{importer.replace('.', '/')}.py").open("a") as module:
            module.write(f"\nimport {imported}\n")
    (package / "odds").mkdir()
    (package / "odds/__init__.py").touch()
    linted = _lint_imports(tmp_path)
    reported = set(re.findall(r"sampan\.([\w.]+) ->\s+([\w.]+) \(l\.", linted.stdout))
    assert reported >= FORBIDDEN_IMPORTS, linted.stdout + linted.stderr
    assert "- sampan.odds" in linted.stdout


def _lint_imports(directory: Path) -> "subprocess.CompletedProcess[str]":
    lint = [str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--no-cache"]
    environment = {"PYTHONPATH": str(directory), "COLUMNS": "400"}
    return subprocess.run(lint, cwd=directory, env=environment, capture_output=True, text=True)


def test_marks_have_types_of_their_own(repository: Path) -> None:
    """The type checker distinguishes the members of an enum from values, but not a bare `object()`."""
    marks = [
        f"{path.relative_to(repository)}:{number}"
        for path in (repository / "src/sampan").rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"^\s*\w+(: [\w\[\], .]+)? = object\(\)", line)
    ]
    assert marks == []


def test_version_of_kubernetes_is_written_once(repository: Path) -> None:
    """Code derives the version from `sampan.api.kubernetes_version`; texts of docstrings and comments may name it."""
    version = re.compile(rf"\bv?{re.escape(MINOR_VERSION)}(\.\d+)?\b")
    places = [
        f"{path.relative_to(repository)}:{line}"
        for directory in ("src", "tools")
        for path in (repository / directory).rglob("*.py")
        if path.name != "kubernetes_version.py" and MINOR_VERSION in path.read_text()
        for line, text in find_texts_of_code(ast.parse(path.read_bytes()))
        if version.search(text)
    ]
    assert places == []


def find_texts_of_code(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of the strings that are no docstrings and do not stand alone."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.lineno, node.value
