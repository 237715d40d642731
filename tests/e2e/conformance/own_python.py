"""Programs in pods that run with the Python of the tests and its installed packages, which no image provides without a
registry."""

import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_IN_EVERY_IMAGE = Path("/usr")


@dataclass(frozen=True, slots=True)
class Program:
    container: dict[str, Any]
    """Fields of the container."""
    volumes: list[dict[str, Any]]


def python_program(script: str, *words: str) -> Program:
    base = Path(sys.base_prefix).resolve()
    packages = sorted({sysconfig.get_path(kind) for kind in ("purelib", "platlib")})
    directories = [*packages, *([] if base.is_relative_to(_IN_EVERY_IMAGE) else [str(base)])]
    volumes = {f"python-{number}": path for number, path in enumerate(directories)}
    container = {
        "command": [
            str(base / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"),
            "-c",
            script,
            *words,
        ],
        "env": [{"name": "PYTHONPATH", "value": os.pathsep.join(packages)}],
        "volumeMounts": [{"name": name, "mountPath": path, "readOnly": True} for name, path in volumes.items()],
    }
    return Program(container, [{"name": name, "hostPath": {"path": path}} for name, path in volumes.items()])
