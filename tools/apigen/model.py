"""The API as one model: definitions from the published schemas, joined with the facts about the Go types.

Sources: the v3 schemas that a real server publishes with all versions and features enabled (defaults, enums, list
types); the kubernetes-validate package for the versions that only older levels serve; gofacts.json for order, pointers
and what is always printed, and alone for the few types that no schema shows (Table, WatchEvent, AdmissionReview,
aggregated discovery).
"""

import importlib.resources
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import go

from sampan.api.feature_gates import LEVEL, LEVELS
from sampan.api.kubernetes_version import DESCRIPTIONS_FILE, MAJOR, MINOR_VERSION
from sampan.api.resources.resource_table import BUILT_IN

HERE = Path(__file__).parent
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
REFERENCE = HERE.parent.parent / f"reference/v{MINOR_VERSION}"

SCALARS: dict[str, dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string", "format": "quantity"},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"format": "int-or-string"},
    f"{META}.Time": {"type": "string", "format": "date-time"},
    f"{META}.MicroTime": {"type": "string", "format": "micro-time"},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object", "preserve_unknown": True},
    f"{META}.FieldsV1": {"type": "object", "preserve_unknown": True},
    f"{META}.Patch": {"type": "object", "preserve_unknown": True},
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": {"preserve_unknown": True},
}
"""Types that write themselves: a single value on the wire, whatever Go holds inside."""

EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
UNIONS = {
    f"{EXTENSIONS}.JSONSchemaPropsOrBool": {},
    f"{EXTENSIONS}.JSONSchemaPropsOrArray": {"items": {"$ref": f"#/components/schemas/{EXTENSIONS}.JSONSchemaProps"}},
    f"{EXTENSIONS}.JSONSchemaPropsOrStringArray": {"items": {"type": "string"}},
}
"""A schema or something smaller in its place, which may be a list of these."""

FROM_GO = {
    META: "Table TableColumnDefinition TableRow TableRowCondition PartialObjectMetadata PartialObjectMetadataList "
    "ListOptions GetOptions CreateOptions UpdateOptions PatchOptions ApplyOptions TableOptions List RootPaths "
    "GroupVersionKind GroupVersionResource GroupResource GroupKind TypeMeta",
    "io.k8s.api.core.v1": "PodAttachOptions PodExecOptions PodLogOptions PodPortForwardOptions PodProxyOptions "
    "NodeProxyOptions ServiceProxyOptions RangeAllocation",
    "io.k8s.api.admission.v1": "AdmissionReview AdmissionRequest AdmissionResponse",
    "io.k8s.api.apidiscovery.v2": "APIGroupDiscoveryList APIGroupDiscovery APIVersionDiscovery APIResourceDiscovery "
    "APISubresourceDiscovery",
}
"""Types that no schema shows."""

VERSION_INFO = "io.k8s.apimachinery.pkg.version.Info"
VERSION_FIELDS = (
    "major! minor! emulationMajor emulationMinor minCompatibilityMajor minCompatibilityMinor gitVersion! gitCommit! "
    "gitTreeState! buildDate! goVersion! compiler! platform!"
)

KINDS_FROM_GO = {
    f"{META}.Table": ("meta.k8s.io", "v1"),
    f"{META}.PartialObjectMetadata": ("meta.k8s.io", "v1"),
    f"{META}.PartialObjectMetadataList": ("meta.k8s.io", "v1"),
    f"{META}.List": ("", "v1"),
    **{f"io.k8s.api.core.v1.{name}": ("", "v1") for name in FROM_GO["io.k8s.api.core.v1"].split()},
    "io.k8s.api.admission.v1.AdmissionReview": ("admission.k8s.io", "v1"),
    "io.k8s.api.apidiscovery.v2.APIGroupDiscoveryList": ("apidiscovery.k8s.io", "v2"),
    "io.k8s.api.apidiscovery.v2.APIGroupDiscovery": ("apidiscovery.k8s.io", "v2"),
}
UNTITLED = ("Options", "APIVersions", "APIResourceList", "APIGroup", "APIGroupList", "RootPaths", "WatchEvent")
"""Meta types that carry kind and apiVersion only where their writer sets them."""


@dataclass
class Field:
    wire: str
    schema: dict[str, Any]
    """As published."""
    go: go.GoField
    via: tuple[str, ...] = ()
    """The embedded Go types that it comes through, from the outside in."""


@dataclass
class Definition:
    name: str
    schema: dict[str, Any]
    fields: list[Field] = field(default_factory=list)
    kinds: list[tuple[str, str, str]] = field(default_factory=list)
    """Group, version, kind of every place it is registered at."""

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def own_kind(self) -> tuple[str, str] | None:
        """apiVersion and kind that a new object of this type has, if it has."""
        if self.name.startswith(META) and self.short.endswith(UNTITLED):
            return None
        for group, version, kind in self.kinds:
            if kind == self.short:
                return (f"{group}/{version}" if group else version), kind
        return None


def load() -> dict[str, Definition]:
    """Every definition by name, sorted."""
    return _Builder().build()


class _Builder:
    def __init__(self) -> None:
        self.facts: dict[str, dict[str, str]] = json.loads((HERE / "gofacts.json").read_text())
        self.facts[VERSION_INFO] = {
            f.rstrip("!"): "string" + ("!" if f.endswith("!") else "") for f in VERSION_FIELDS.split()
        }
        files = ("openapi-v3-schemas-all.json", "openapi-v3-schemas.json")
        self.published: dict[str, Any] = {}
        for name in files:  # where they differ, in the kinds of shared types, those of a default server count
            self.published |= json.loads((REFERENCE / name).read_text())
        retired = _schemas_of_older_levels()
        self.schemas = {name: schema for name, schema in retired.items() if name in self.facts} | self.published
        for name, schema in self.schemas.items():  # `type Rule v1.Rule`: the same struct under another name
            if name not in self.facts and schema.get("properties"):
                package, _, short = name.rpartition(".")
                self.facts[name] = self.facts[f"{package.rpartition('.')[0]}.v1.{short}"]
        self._copy_defaults()
        self.from_go = {f"{package}.{name}" for package, names in FROM_GO.items() for name in names.split()}

    def _copy_defaults(self) -> None:
        """A version that only older levels serve has the defaults of the same field in v1, which alone is published."""
        for name, schema in self.schemas.items():
            if name in self.published:
                continue
            package, _, short = name.rpartition(".")
            model_of_it = self.published.get(f"{package.rpartition('.')[0]}.v1.{short}", {}).get("properties", {})
            for wire, node in schema.get("properties", {}).items():
                if "default" in (known := model_of_it.get(wire, {})):
                    node["default"] = known["default"]

    def build(self) -> dict[str, Definition]:
        names = sorted(set(self.schemas) | self.from_go)
        return {name: self._definition(name) for name in names}

    def _definition(self, name: str) -> Definition:
        source = self.schemas.get(name) or {"type": "object"}
        found = Definition(name, source)
        for kind in source.get("x-kubernetes-group-version-kind") or ():
            found.kinds.append((kind["group"], kind["version"], kind["kind"]))
        if name in KINDS_FROM_GO:
            found.kinds = [(*KINDS_FROM_GO[name], found.short)]
        if name in UNIONS:
            found.fields = self._fields(f"{go.package_of(name)}.JSONSchemaProps")
        elif name not in SCALARS and name in self.facts:
            found.fields = self._fields(name)
        shown = set(source.get("properties") or ())
        if shown and shown != {f.wire for f in found.fields}:
            raise SystemExit(f"{name}: schema and Go facts differ: {shown ^ {f.wire for f in found.fields}}")
        return found

    def _fields(self, name: str) -> "list[Field]":
        shown = (self.schemas.get(name) or {}).get("properties") or {}
        found: dict[str, Field] = {}
        for wire, fact in self.facts[name].items():
            if wire.startswith("^"):
                for inner in self._embedded(name, wire[1:]):
                    found.setdefault(inner.wire, inner)
                continue
            parsed = go.parse(fact)
            found[wire] = Field(wire, shown.get(wire) or self._schema_of(name, parsed.text), parsed)
        for wire, inner in found.items():  # an embedded type's schema is the outer one's
            inner.schema = shown.get(wire, inner.schema)
        return list(found.values())

    def _embedded(self, owner: str, text: str) -> "list[Field]":
        short = text.lstrip("*").rpartition(".")[2]
        inner = self._fields(self._resolve(owner, text.lstrip("*")))
        return [replace(field, via=(short, *field.via)) for field in inner]

    def _resolve(self, owner: str, text: str) -> str:
        """The full name of a Go type as `owner` writes it; empty if it is none of the API's structs."""
        package, _, short = text.rpartition(".")
        if not package:
            own = go.package_of(owner)
            candidates = [own, own.rpartition(".")[0] + ".v1"]
        elif package in go.PACKAGES:
            candidates = [go.PACKAGES[package]]
        else:
            candidates = [META, "io.k8s.api.core.v1", "io.k8s.api.authentication.v1"]
        for candidate in candidates:
            full = f"{candidate}.{short}"
            if full in self.schemas or full in self.facts or full in SCALARS:
                return full
        return ""

    def _schema_of(self, owner: str, text: str) -> dict[str, Any]:
        """An OpenAPI node for a Go type that no schema shows."""
        text = text.removeprefix("*")
        text = go.ALIASES.get(text.rpartition(".")[2], text)
        if text == "[]byte":
            return {"type": "string", "format": "byte"}
        if text.startswith("[]"):
            return {"type": "array", "items": self._schema_of(owner, go.element(text))}
        if text.startswith("map["):
            return {"type": "object", "additionalProperties": self._schema_of(owner, go.element(text))}
        if text in go.PRIMITIVES:
            kind, form = go.PRIMITIVES[text]
            return {"type": kind, "format": form} if form else {"type": kind}
        if text in ("interface{}", "any"):
            return {"x-kubernetes-preserve-unknown-fields": True}
        if full := self._resolve(owner, text):
            return {"$ref": f"#/components/schemas/{full}"}
        return {"type": "string"}


def _schemas_of_older_levels() -> dict[str, Any]:
    """The schemas of the versions that only levels before the current one serve, each as of the last of these."""
    packages = {f"io.k8s.api.{gv.group.split('.')[0]}.{gv.version}" for gv in BUILT_IN}
    found: dict[str, Any] = {}
    for level in LEVELS[: LEVELS.index(LEVEL)]:
        file = DESCRIPTIONS_FILE.replace(MINOR_VERSION, f"{MAJOR}.{level}")
        path = importlib.resources.files("kubernetes_validate") / file
        schemas = json.loads(path.read_text())["$defs"]
        found |= {name: _plain(node) for name, node in schemas.items() if go.package_of(name) in packages}
    return found


def _plain(node: Any) -> Any:
    """A node without descriptions, and without the null that this source adds to every type and enum."""
    if not isinstance(node, dict):
        return node
    out = {k: v for k, v in node.items() if k != "description" or isinstance(v, dict)}
    if isinstance(out.get("type"), list):
        out["type"] = next(t for t in out["type"] if t != "null")
    if isinstance(out.get("enum"), list):
        out["enum"] = [v for v in out["enum"] if v is not None]
    if "$ref" in out:
        out["$ref"] = out["$ref"].replace("#/$defs/", "#/components/schemas/")
    for key in ("items", "additionalProperties"):
        if key in out:
            out[key] = _plain(out[key])
    if isinstance(out.get("properties"), dict):
        out["properties"] = {k: _plain(v) for k, v in out["properties"].items()}
    return out


def ref(node: dict[str, Any]) -> str:
    """The definition that a node refers to, empty if it does not."""
    target = node.get("$ref") or (node["allOf"][0]["$ref"] if "allOf" in node else "")
    return target.rpartition("/")[2]
