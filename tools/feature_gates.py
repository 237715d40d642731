"""Write src/sampan/api/data/feature_gates.json and feature_gate_dependencies.json, the feature gates that
`sampan.api.feature_gates` reads.

`python tools/feature_gates.py` joins the lists of all versions in `reference`; with `--check` it only compares. A gate
that the list of a version no longer has was removed in that version. Minor versions stand for versions, and 0 for "in
all of them".
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Spec = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "src/sampan/api/data/feature_gates.json"
DEPENDENCIES = OUTPUT.with_name("feature_gate_dependencies.json")
ADDITIONS: Mapping[str, list[Spec]] = {
    # k8s.io/component-base: featuregate, logs/api/v1 and metrics/features
    "AllAlpha": [{"since": 0, "stage": "Alpha", "default": False}],
    "AllBeta": [{"since": 0, "stage": "Beta", "default": False}],
    "ContextualLogging": [
        {"since": 24, "stage": "Alpha", "default": False},
        {"since": 30, "stage": "Beta", "default": True},
    ],
    "LoggingAlphaOptions": [{"since": 24, "stage": "Alpha", "default": False}],
    "LoggingBetaOptions": [{"since": 24, "stage": "Beta", "default": True}],
    "NativeHistograms": [
        {"since": 36, "stage": "Alpha", "default": False},
        {"since": 37, "stage": "Beta", "default": True},
    ],
    # the only gate with a default that depends on the minimal compatibility version, which the lists omit
    "DRAFractionalCapacityRange": [
        {"since": 37, "stage": "Beta", "default": False},
        {"since": 37, "stage": "Beta", "default": True, "min_compatibility": 37},
    ],
}
"""Gates that the reference omits or describes in part."""


def feature_gates() -> str:
    """Return the content of the file: one gate per line, sorted."""
    gates: dict[str, list[Spec]] = {}
    paths = {_minor(path.parent.name): path for path in ROOT.glob("reference/v*/feature-gates.json")}
    for minor, path in sorted(paths.items()):
        listed = {name: [_spec(spec) for spec in specs] for name, specs in json.loads(path.read_text()).items()}
        for name in gates.keys() - listed.keys():
            gates[name].append({"since": minor, "stage": "Removed"})
        gates |= listed
    gates |= ADDITIONS
    lines = (f"{json.dumps(name)}: {json.dumps(specs)}" for name, specs in sorted(gates.items()))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _spec(spec: Spec) -> Spec:
    kept = {"since": _minor(spec["version"]), "stage": spec["stage"], "default": spec["default"]}
    return kept | ({"locked": True} if spec.get("locked") else {})


def _minor(version: str) -> int:
    return int(version.rpartition(".")[2])


def dependencies() -> str:
    """Return the gates that the gates of the newest version need, one gate per line."""
    newest = max(ROOT.glob("reference/v*/feature-gate-dependencies.json"), key=lambda path: _minor(path.parent.name))
    lines = (f"{json.dumps(name)}: {json.dumps(needed)}" for name, needed in json.loads(newest.read_text()).items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    for path, text in ((OUTPUT, feature_gates()), (DEPENDENCIES, dependencies())):
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif path.read_text() != text:
            raise SystemExit(f"{path.relative_to(ROOT)} is out of date; run `python tools/feature_gates.py`")


if __name__ == "__main__":
    main()
