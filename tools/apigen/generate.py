"""Write src/sampan/api/types and src/sampan/api/data from the published schemas. `--check` only compares.

.venv/bin/python tools/apigen/generate.py [--check]
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import emit_schemas
import emit_types
import model

API = Path(__file__).resolve().parent.parent.parent / "src/sampan/api"


def outputs() -> dict[Path, str]:
    """What every generated file should hold."""
    definitions = model.load()
    modules = _formatted(emit_types.modules(definitions))
    found = {API / f"types/{name}.py": text for name, text in modules.items()}
    found[API / "data/schemas.json"] = emit_schemas.schemas(definitions)
    found[API / "data/gotypes.json"] = emit_schemas.go_types(definitions)
    return found


def _formatted(sources: dict[str, str]) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        for name, text in sources.items():
            (folder / f"{name}.py").write_text(text)
        config = ["--config", str(API.parent.parent.parent / "pyproject.toml")]
        for command in (["check", "--quiet", "--select", "I", "--fix"], ["format", "--quiet"]):
            subprocess.run([sys.executable, "-m", "ruff", *command, *config, work], check=True)
        return {name: (folder / f"{name}.py").read_text() for name in sources}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    wanted = outputs()
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{'stale' if check else 'written'}: {path.relative_to(API)}")
    if not check:
        for path in stale:
            path.write_text(wanted[path])
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
