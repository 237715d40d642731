"""Programs in pods that are written in the Python of the tests, with the packages that are installed for it: what no
image has that can be had without a registry."""

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


def own_python(script: str, *words: str) -> Program:
    base = Path(sys.base_prefix).resolve()
    packages = Path(sysconfig.get_path("purelib"))
    folders = {"packages": packages} | ({} if base.is_relative_to(_IN_EVERY_IMAGE) else {"python": base})
    mounts = [{"name": name, "mountPath": str(path), "readOnly": True} for name, path in folders.items()]
    interpreter = str(base / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")
    container = {
        "command": [interpreter, "-c", script, *words],
        "env": [{"name": "PYTHONPATH", "value": str(packages)}, {"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
        "volumeMounts": mounts,
    }
    return Program(container, [{"name": name, "hostPath": {"path": str(path)}} for name, path in folders.items()])
