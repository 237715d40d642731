"""Write src/sampan/api/types and src/sampan/api/data from the published schemas. `--check` only compares.

.venv/bin/python tools/apigen/generate.py [--check]
"""

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import emit_schemas
import emit_types
import model

API = Path(__file__).resolve().parent.parent.parent / "src/sampan/api"


def outputs() -> dict[Path, str]:
    definitions = model.load()
    found = {API / f"types/{name}.py": _formatted(text) for name, text in emit_types.modules(definitions).items()}
    found[API / "data/schemas.json"] = emit_schemas.schemas(definitions)
    found[API / "data/gotypes.json"] = emit_schemas.go_types(definitions)
    return found


def _formatted(source: str) -> str:
    command = [sys.executable, "-m", "ruff"]
    sorted_imports = [*command, "check", "--quiet", "--select", "I", "--fix", "--stdin-filename", "types.py", "-"]
    source = subprocess.run(sorted_imports, input=source, text=True, capture_output=True, check=True).stdout
    formatted = [*command, "format", "--stdin-filename", "types.py", "-"]
    return subprocess.run(formatted, input=source, text=True, capture_output=True, check=True).stdout


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
