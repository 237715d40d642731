"""Read which API fields are pointers and which are always printed, off the published Go types.

The OpenAPI schemas say neither, yet both show on the wire: a pointer tells "absent" from "zero", a field without
`omitempty` is printed even when empty, and the protobuf form writes every plain scalar. This needs a Go toolchain and
is run by hand when the Kubernetes version changes; its output, gofacts.json, is checked in and holds facts only:

    {"io.k8s.api.core.v1.PodSpec": {"volumes": "[]Volume", "hostname": "string", "nodeName": "string", ...}}

per type and in declared order, the Go type of each field, with a trailing "!" where the field is printed even when
empty, "~" where only its zero value is left out (omitzero). An embedded type is a key that starts with "^".

    python tools/apigen/gofacts.py > tools/apigen/gofacts.json
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

from sampan.api.kubernetes_version import GIT_VERSION

VERSION = GIT_VERSION.replace("v1.", "v0.", 1)
MODULES = {
    "k8s.io/api": "io.k8s.api",
    "k8s.io/apimachinery": "io.k8s.apimachinery",
    "k8s.io/apiextensions-apiserver": "io.k8s.apiextensions-apiserver",
    "k8s.io/kube-aggregator": "io.k8s.kube-aggregator",
}
STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}", re.M | re.S)
FIELD = re.compile(r"^\t(?:(\w+)[ \t]+)?(\S[^`]*?)[ \t]+`([^`]*)`", re.M)
TAG = re.compile(r'json:"([^"]*)"')


def module_folder(module: str, version: str = VERSION) -> pathlib.Path:
    with tempfile.TemporaryDirectory() as work:
        pathlib.Path(work, "go.mod").write_text("module facts\n\ngo 1.24\n")
        done = subprocess.run(
            ["go", "mod", "download", "-json", f"{module}@{version}"],
            cwd=work,
            check=True,
            capture_output=True,
            text=True,
        )
    return pathlib.Path(json.loads(done.stdout)["Dir"])


def fields_of(body: str) -> dict[str, str]:
    found: dict[str, str] = {}
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    code = "\n".join(line for line in body.splitlines() if not line.lstrip().startswith("//"))
    for _, go_type, tags in FIELD.findall(code):
        tag = TAG.search(tags)
        if not tag:
            continue
        name, *options = tag.group(1).split(",")
        if name == "-":
            continue
        if "inline" in options or not name:
            found["^" + go_type] = ""  # embedded: its fields are these fields
            continue
        mark = "~" if "omitzero" in options else "" if "omitempty" in options else "!"
        found[name] = go_type + mark
    return found


def extract() -> dict[str, dict[str, str]]:
    facts: dict[str, dict[str, str]] = {}
    for module, prefix in MODULES.items():
        root = module_folder(module)
        for path in sorted(root.rglob("*.go")):
            if path.name.endswith("_test.go") or "zz_generated" in path.name or "generated.pb" in path.name:
                continue
            package = ".".join(path.relative_to(root).parent.parts)
            if not re.search(r"v\d+((alpha|beta)\d+)?$", package) and not package.endswith(
                ("runtime", "resource", "intstr")
            ):
                continue
            if "testapigroup" in package or "testing" in package:
                continue
            for name, body in STRUCT.findall(path.read_text()):
                fields = fields_of(body)
                if fields:
                    facts[f"{prefix}.{package}.{name}"] = fields
    return facts


if __name__ == "__main__":
    json.dump(extract(), sys.stdout, indent=0, separators=(",", ":"))
    sys.stdout.write("\n")
