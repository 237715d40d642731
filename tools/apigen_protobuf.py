"""Make the protobuf field table that sampan.api.codec.protobuf reads.

Joins the published field numbers with the facts about Go fields (tools/apigen/gofacts.json): the numbers say how a
field is written, the Go type says when it is (a pointer only if set, a plain value always) and when JSON prints it.

    python tools/apigen_protobuf.py reference/v1.37/protobuf-fields.json > src/sampan/api/data/protobuf.json

The output holds `groups` (apiVersion -> package), `kinds` (package -> names that are whole objects) and `messages`
(package -> message -> JSON field -> "NUMBER TYPE"). TYPE is string, bool, int32, int64, double, bytes or a message
("Container", "meta.v1.Time"), behind `*` (pointer), `[]` (list), `{}` (map from string), `^` (embedded: in JSON its
fields stand among the outer ones), before `!` (printed even when empty) or `~` (left out when zero).
A message whose only field is called `[]` is a list in JSON.
"""

import json
import pathlib
import re
import sys
from typing import Any

from sampan.api.resources.resource_table import BUILT_IN
from sampan.api.scheme import MODULES

GOFACTS = pathlib.Path(__file__).parent / "apigen" / "gofacts.json"

META = "k8s.io.apimachinery.pkg.apis.meta."
PLAIN_GROUPS = {"core": "", "apps": "apps", "autoscaling": "autoscaling", "batch": "batch", "policy": "policy"}
OTHER_GROUPS = {
    "flowcontrol": "flowcontrol.apiserver.k8s.io",
    "meta": "meta.k8s.io",
    "apiserverinternal": "internal.apiserver.k8s.io",
    "rbac": "rbac.authorization.k8s.io",
}
OWN_PACKAGES = {
    "apiextensions.v1": "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1",
    "apiregistration.v1": "k8s.io.kube_aggregator.pkg.apis.apiregistration.v1",
    "meta.v1": META + "v1",
    "meta.v1beta1": META + "v1beta1",
}
"""Packages that are not part of k8s.io/api."""
SHORT_NAMES = {
    "admission.v1",
    "apidiscovery.v2",
    *(f"{MODULES.get(gv.group) or gv.group.split('.')[0]}.{gv.version}" for gv in BUILT_IN),
    *OWN_PACKAGES,
}
PACKAGES = {OWN_PACKAGES.get(name, f"k8s.io.api.{name}"): name for name in SHORT_NAMES}
NAMES = PACKAGES | {
    "k8s.io.apimachinery.pkg.api.resource": "quantity",
    "k8s.io.apimachinery.pkg.runtime": "runtime",
    "k8s.io.apimachinery.pkg.util.intstr": "intstr",
}
SPECIAL = {
    "meta.v1.Time",
    "meta.v1.MicroTime",
    "meta.v1.Duration",
    "meta.v1.FieldsV1",
    "apiextensions.v1.JSON",
}
"""Messages whose JSON form is not an object of their fields: the codec knows them by name."""
ALIASES = {"core.v1.List"}
"""Go aliases of a meta type."""
UNIONS = {
    "apiextensions.v1.JSONSchemaPropsOrArray",
    "apiextensions.v1.JSONSchemaPropsOrBool",
    "apiextensions.v1.JSONSchemaPropsOrStringArray",
}
"""One of several JSON forms; what is a message in them is a pointer in Go."""
SCALARS = {"string", "bool", "int32", "int64", "double", "bytes"}

Facts = dict[str, dict[str, str]]
Messages = dict[str, dict[str, list[Any]]]


def api_version(package: str) -> str:
    group, version = package.split(".")
    name = PLAIN_GROUPS.get(group, OTHER_GROUPS.get(group, f"{group}.k8s.io"))
    return f"{name}/{version}" if name else version


def go_name(package: str, message: str) -> str:
    return f"io.k8s.{package.removeprefix('k8s.io.')}.{message}".replace("_", "-")


def short(package: str, kind: str) -> str:
    """The name of a message type, relative to the package that mentions it."""
    kind = kind.lstrip(".")
    if kind in SCALARS or "." not in kind:
        return kind
    home, _, name = kind.rpartition(".")
    return name if home == package else f"{NAMES[home]}.{name}"


def type_text(package: str, kind: str) -> str:
    if kind.startswith("repeated "):
        return "[]" + short(package, kind.removeprefix("repeated "))
    if found := re.fullmatch(r"map<string,(.*)>", kind):
        return "{}" + short(package, found.group(1))
    return short(package, kind)


def bare(name: str) -> str:
    """What a JSON name and its protobuf spelling have in common ("x-kubernetes-list-type", "xKubernetesListType")."""
    return re.sub(r"\W", "", name).lower()


def embedded(kind: str, facts: dict[str, str]) -> bool:
    return "^" + kind.rpartition(".")[2] in facts


def without_facts(package: str, message: str, fields: dict[str, list[Any]]) -> dict[str, str]:
    if f"{PACKAGES[package]}.{message}" in UNIONS:
        texts = {name: (number, type_text(package, kind)) for name, (number, kind) in fields.items()}
        return {name: f"{number} {'*' if text[0].isupper() else ''}{text}" for name, (number, text) in texts.items()}
    if list(fields) == ["items"]:
        number, kind = fields["items"]
        return {"[]": f"{number} {type_text(package, kind)}"}
    if fields:
        raise SystemExit(f"no facts about {package}.{message}")
    return {}


def message_fields(package: str, message: str, fields: dict[str, list[Any]], facts: Facts) -> dict[str, str]:
    stable = re.sub(r"\.v\d\w*$", ".v1", package)  # `type Rule = v1.Rule`: the same struct under another name
    go_fields = facts.get(go_name(package, message)) or facts.get(go_name(stable, message))
    if go_fields is None:
        return without_facts(package, message, fields)
    by_bare = {bare(name): name for name in go_fields if not name.startswith("^")}
    table: dict[str, str] = {}
    for name, (number, kind) in fields.items():
        text = type_text(package, kind)
        if bare(name) not in by_bare:
            if not embedded(kind, go_fields):
                raise SystemExit(f"{package}.{message}.{name} has no Go field")
            table[name] = f"{number} ^{text}"
            continue
        json_name = by_bare[bare(name)]
        go_type = go_fields[json_name]
        pointer = "*" if go_type.startswith("*") else ""
        table[json_name] = f"{number} {pointer}{text}{go_type[-1] if go_type[-1] in '!~' else ''}"
    return table


def kinds_of(package: str, messages: Messages, facts: Facts) -> list[str]:
    return sorted(
        name for name in messages if {"^metav1.TypeMeta", "^TypeMeta"} & set(facts.get(go_name(package, name), ()))
    )


def used_messages(package: str, published: dict[str, Messages]) -> Messages:
    """The messages of a package without those of kinds that no level serves in a beta or alpha version any more. Stable
    kinds of other packages may have fields of its types, such as `scheduling` of a Job."""
    messages = published[package]
    group_version = next((gv for gv in BUILT_IN if f"{gv.group}/{gv.version}" == api_version(PACKAGES[package])), None)
    if group_version is None or re.fullmatch(r"v\d+", group_version.version):
        return messages
    used: set[str] = set()
    waiting = [f"{resource.kind}{suffix}" for resource in group_version.resources for suffix in ("", "List")]
    others = (published[other] for other in PACKAGES if other != package)
    kinds = (kind for other in others for fields in other.values() for _, kind in fields.values())
    waiting += (kind.rpartition(".")[2] for kind in kinds if f"{package}." in kind)
    while waiting:
        name = waiting.pop()
        if name in messages and name not in used:
            used.add(name)
            words = " ".join(kind for _, kind in messages[name].values())
            waiting += (
                short(package, word) for word in re.findall(r"[\w.]+", words) if "." not in word or package in word
            )
    return {name: fields for name, fields in messages.items() if name in used}


def make(published: dict[str, Messages], facts: Facts) -> dict[str, Any]:
    kinds, messages = {}, {}
    published = {package: used_messages(package, published) for package in PACKAGES}
    for package, name in sorted(PACKAGES.items(), key=lambda item: item[1]):
        messages[name] = {
            message: message_fields(package, message, fields, facts)
            for message, fields in sorted(published[package].items())
            if f"{name}.{message}" not in SPECIAL | ALIASES
        }
        kinds[name] = kinds_of(package, published[package], facts)
    return {"groups": {api_version(name): name for name in messages}, "kinds": kinds, "messages": messages}


def render(table: dict[str, Any]) -> str:
    """JSON with one line for each message, so that a change of the API reads as one."""
    lines = ["{", f'"groups":{json.dumps(table["groups"])},', f'"kinds":{json.dumps(table["kinds"])},', '"messages":{']
    packages = []
    for package, messages in table["messages"].items():
        rows = (f'"{name}":{json.dumps(fields, separators=(",", ":"))}' for name, fields in messages.items())
        packages.append(f'"{package}":{{\n' + ",\n".join(rows) + "}")
    return "\n".join([*lines, ",\n".join(packages), "}}", ""])


def main(published: pathlib.Path) -> str:
    return render(make(json.loads(published.read_text()), json.loads(GOFACTS.read_text())))


if __name__ == "__main__":
    sys.stdout.write(main(pathlib.Path(sys.argv[1])))
