"""CustomResourceDefinitions of published Go modules, collected once for each state of `modules.txt`.

The modules are downloaded by `go mod download`, which verifies them, into a cache of their own that is removed again:
what is kept is one file with the definitions of each module. With an empty cache that takes 15 minutes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.programs import program_cache

MODULES = Path(__file__).parent / "modules.txt"
_SUFFIXES = (".yaml", ".yml", ".json")
_MAX_FILE_BYTES = 8_000_000
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Definition = dict[str, Any]


def collect_or_skip() -> Iterator[tuple[str, Definition]]:
    """Yield the distinct definitions of all modules with the names of their modules, or skip the test."""
    directory = program_cache() / "operators" / "crds"
    missing = [module for module in _modules() if not _file(directory, module).exists()]
    if missing and not os.environ.get("SAMPAN_BUILD_OPERATORS"):
        pytest.skip("the definitions have not been collected yet: `make operators` downloads them")
    if missing and shutil.which("go") is None:
        pytest.skip("Go is not installed (1.26 or later): the definitions are those of Go modules")
    directory.mkdir(parents=True, exist_ok=True)
    for module in missing:
        _collect(module, _file(directory, module))
    known_lines: set[str] = set()
    for module in _modules():
        for line in _file(directory, module).read_text().splitlines():
            if line not in known_lines:
                known_lines.add(line)
                yield module, json.loads(line)


def _modules() -> list[str]:
    return [line for line in MODULES.read_text().splitlines() if line and not line.startswith("#")]


def _file(directory: Path, module: str) -> Path:
    return directory / f"{hashlib.sha256(module.encode()).hexdigest()[:16]}.jsonl"


def _collect(module: str, path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="sampan-crds-") as cache:
        environment = {**os.environ, "GOMODCACHE": cache, "GOFLAGS": "-modcacherw"}
        completed = subprocess.run(
            ["go", "mod", "download", "-json", module], cwd=cache, env=environment, capture_output=True, text=True
        )
        download = json.loads(completed.stdout)
        assert "Zip" in download, f"{module}: {download.get('Error')}"
        lines = sorted(
            {json.dumps(value, default=str, sort_keys=True) for value in _definitions(Path(download["Zip"]))}
        )
    partial = path.with_suffix(".partial")
    partial.write_text("".join(f"{line}\n" for line in lines))
    partial.rename(path)


def _definitions(archive: Path) -> Iterator[Definition]:
    with zipfile.ZipFile(archive) as file:
        for info in file.infolist():
            if not info.filename.endswith(_SUFFIXES) or info.file_size > _MAX_FILE_BYTES:
                continue
            text = file.read(info)
            if b"CustomResourceDefinition" in text and b"openAPIV3Schema" in text:
                yield from _parse(text)


def _parse(text: bytes) -> Iterator[Definition]:
    try:
        for document in yaml.load_all(text.decode(), Loader=_LOADER):
            values = document.get("items") or [document] if isinstance(document, dict) else []
            yield from filter(_is_definition, values)
    except (yaml.YAMLError, UnicodeDecodeError):
        return  # a template


def _is_definition(value: Any) -> bool:
    kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    return isinstance(value, dict) and (value.get("apiVersion"), value.get("kind")) == kind
