"""Read the validation tags (`+k8s:` comments, declarative validation) off the published Go types.

They are facts per field: required, limits, formats, unions, immutability, with the maturity (alpha, beta) and the
feature gates that they depend on. This needs a Go toolchain and is run by hand when the Kubernetes version changes:

    python tools/apigen/validation_tags.py v0.37.1

It writes src/sampan/api/data/validation_tags.json: per type and field, the tags without the prefix and the version in
which they got their maturity: `"replicas": ["beta required", "beta minimum=0"]`. Three things are resolved here. A
field with a default is required where its tag says optional, unless the default is the zero value. The values of an
enum, which are constants beside the type, follow the tag of the type, and both are written at each field of that type,
marked `type`. The fields of an embedded struct are fields of the struct.
"""

import json
import pathlib
import re
import sys
from dataclasses import dataclass, field

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import gofacts

OUTPUT = pathlib.Path(__file__).resolve().parent.parent.parent / "src/sampan/api/data/validation_tags.json"
MODULES = {"k8s.io/api": "io.k8s.api", "k8s.io/apimachinery": "io.k8s.apimachinery"}
IRRELEVANT = (
    "deepcopy-gen", "prerelease-lifecycle-gen", "openapi-gen", "conversion-gen", "defaulter-gen", "deprecated",
    "supportsSubresource", "isSubresource", "validation-gen-nolint", "protobuf-gen",
)  # fmt: skip
CONSTANT = re.compile(r'^(?:\t|const )\w+(?:\s+(\w+)\s*=\s*|\s*=\s*(\w+)\()("[^"]*"|\w+\.\w+)', re.M)
STRING_CONSTANT = re.compile(r'^\t(\w+)\b.*= "([^"]*)"$', re.M)
ZERO_VALUES = ("0", '""', "false")
LEVEL = re.compile(r'^(alpha|beta)\(since:\s*"[\d.]+"\)=')
TYPE = re.compile(r"^type (\w+) (struct|\S+)")
FIELD = re.compile(r'^\t(?:(\w+)\s+)?(\S+)\s+`.*json:"([^"]*)"')


@dataclass(slots=True)
class Package:
    name: str
    scalars: dict[str, list[str]] = field(default_factory=dict)
    """The tags of types that are not structs."""
    fields: dict[str, list[tuple[str, str, list[str]]]] = field(default_factory=dict)
    """The fields of each struct: the name on the wire, the Go type and the tags."""


def tag_of(comment: str) -> str:
    """Return a tag without prefixes, quotes and version, such as `beta maxItems=4`."""
    text = comment.removeprefix("+k8s:").split(" # ")[0].split(" //")[0].strip()
    return LEVEL.sub(r"\1 ", text).replace("+k8s:", "").replace('"', "")


def read(path: pathlib.Path, package: Package, core_constants: dict[str, str]) -> None:
    text = path.read_text()
    constants: dict[str, list[str]] = {}
    for name, converted_to, value in CONSTANT.findall(text):
        text_value = value.strip('"') if value.startswith('"') else core_constants.get(value.partition(".")[2], "")
        constants.setdefault(name or converted_to, []).append(text_value)
    comments: list[str] = []
    current = ""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("//"):
            comments.append(stripped[2:].strip())
            continue
        if found := TYPE.match(line):
            tags = [tag_of(comment) for comment in comments if is_tag(comment)]
            current = found[1] if found[2] == "struct" else ""
            if tags and current:
                raise SystemExit(f"{path}: unknown tags of the struct {current}: {tags}")
            package.scalars[found[1]] = [
                f"{tag}={'|'.join(sorted(constants[found[1]]))}" if tag.endswith("enum") else tag for tag in tags
            ]
        elif line == "}":
            current = ""
        elif current and (found := FIELD.match(line)):
            tags = field_tags(comments, is_pointer=found[2].startswith("*"))
            package.fields.setdefault(current, []).append((found[3].split(",")[0], found[2], tags))
        comments = comments if stripped == "" and not current else []


def is_tag(comment: str) -> bool:
    return comment.startswith("+k8s:") and not comment.startswith(tuple(f"+k8s:{name}" for name in IRRELEVANT))


def field_tags(comments: list[str], *, is_pointer: bool) -> list[str]:
    tags = [tag_of(comment) for comment in comments if is_tag(comment)]
    defaults = [comment.partition("=")[2] for comment in comments if comment.startswith("+default=")]
    if defaults and not is_pointer and defaults[0] in ZERO_VALUES:
        return [tag for tag in tags if not tag.endswith("optional")]
    return [re.sub(r"\boptional$", "required", tag) for tag in tags] if defaults else tags


def tags_of_type(package: Package, name: str) -> dict[str, list[str]]:
    """Return the tags of each field that has some, those of its own type last; embedded fields are among them."""
    tags: dict[str, list[str]] = {}
    for wire, go_type, own in package.fields[name]:
        base = go_type.lstrip("*").removeprefix("[]")
        if not wire:
            tags |= tags_of_type(package, base) if base in package.fields else {}
            continue
        of_type = [] if any(tag.endswith("opaqueType") for tag in own) else package.scalars.get(base, [])
        if go_type.startswith("[]"):
            of_type = [re.sub(r"^((?:alpha|beta) )?", r"\1eachVal=", tag) for tag in of_type]
        if own or of_type:
            tags[wire] = [*own, *(f"type {tag}" for tag in of_type)]
    return tags


def extract(version: str) -> dict[str, dict[str, list[str]]]:
    facts: dict[str, dict[str, list[str]]] = {}
    core_types = gofacts.module_folder("k8s.io/api", version) / "core/v1/types.go"
    core_constants = dict(STRING_CONSTANT.findall(core_types.read_text()))
    for module, prefix in MODULES.items():
        root = gofacts.module_folder(module, version)
        for path in sorted(root.rglob("types.go")):
            parts = path.relative_to(root).parent.parts
            if not re.search(r"^v\d+((alpha|beta)\d+)?$", parts[-1]) or "testapigroup" in parts:
                continue
            package = Package(".".join((prefix, *parts)))
            read(path, package, core_constants)
            for name in package.fields:
                if tags := tags_of_type(package, name):
                    facts[f"{package.name}.{name}"] = tags
    return facts


def main(version: str) -> None:
    rows = (
        f"{json.dumps(name)}:{json.dumps(fields, separators=(',', ':'))}" for name, fields in extract(version).items()
    )
    OUTPUT.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
