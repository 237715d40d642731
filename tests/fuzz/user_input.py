"""Input from users of the API and the command line: patches, selectors, expressions, schemas, files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from sampan.api import limits
from sampan.api.codec import json as json_codec
from sampan.api.codec.errors import DecodeError
from sampan.api.schema import schemas
from sampan.api.schema.tree import copy_value
from sampan.api.selectors import fields, label_grammar, labels
from sampan.api.types.apiextensions_v1 import CustomResourceValidation
from sampan.api.types.core_v1 import Pod
from sampan.api.values import cron, durations, quantity, times
from sampan.apiserver.customresources.definitions.schemas import validate_schema
from sampan.apiserver.customresources.objects.custom_schema import CompiledSchema
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.kustomization import build
from sampan.machinery import patch
from sampan.machinery.apply import sets
from sampan.machinery.cel import CelError, Environment
from sampan.machinery.cel.checker.types import DYN, STRING, list_of
from sampan.machinery.cel.library import BINDINGS
from sampan.machinery.client import kubeconfig
from sampan.machinery.jsonpath import JsonPathError, JsonPathTemplate

DOCUMENT: dict[str, Any] = {
    "metadata": {"finalizers": ["a", "b"], "labels": {"a": "b"}},
    "spec": {"containers": [{"name": "a", "env": [{"name": "x", "value": "1"}]}, {"name": "b", "ports": []}]},
}

# -- patches ---------------------------------------------------------------------------------------------------------

PATCH_ERRORS = (patch.PatchError, DecodeError)
PATCHES = (
    b'j[{"op":"add","path":"/spec/containers/-","value":{"name":"c"}},{"op":"test","path":"/metadata/labels/a","value":"b"}]',
    b'j[{"op":"move","from":"/spec/containers/0","path":"/spec/containers/1"},{"op":"remove","path":"/metadata/labels"}]',
    b'm{"metadata":{"labels":{"a":null,"c":"d"}},"spec":{"containers":[]}}',
    b's{"spec":{"containers":[{"name":"a","env":[{"name":"x","$patch":"delete"}]}],"$setElementOrder/containers":[{"name":"b"},{"name":"a"}]}}',
    b's{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"]},"spec":{"$retainKeys":["containers"],"$patch":"replace"}}',
)


def read_patch(data: bytes) -> None:
    """Apply a patch; the first byte is its type."""
    body = json_codec.read_any(data[1:])
    document = copy_value(DOCUMENT)
    if data[:1] == b"j":
        operations = patch.check_json_patch(body)
        patch.unknown_parts(operations)
        patch.apply_json_patch(document, operations)
    elif data[:1] == b"m":
        patch.apply_merge_patch(document, patch.check_merge_patch(body))
    else:
        patch.apply_strategic_patch(document, patch.check_strategic_patch(body), schemas.schema_of(Pod))


# -- texts -----------------------------------------------------------------------------------------------------------

_PARSERS: tuple[tuple[Callable[[str], object], type[Exception]], ...] = (
    (labels.parse, label_grammar.SelectorError),
    (fields.parse, fields.FieldSelectorError),
    (quantity.parse, quantity.QuantityError),
    (quantity.canonical, quantity.QuantityError),
    (cron.parse_schedule, cron.ScheduleError),
    (durations.parse_duration, durations.DurationError),
    (times.parse_time, times.TimeError),
    (lambda text: sets.decode(text.encode()), sets.BadFields),
)
SELECTORS = (
    b"a=b,c!=d,e in (f, g),h notin (i),!j,k,l>1,m<2",
    b"metadata.name=a,status.phase!=Running,x=\\,\\=",
    b"1.5e3Ki",
    b"CRON_TZ=Europe/Berlin */5 0-6/2 1,2 JAN-MAR MON-FRI",
    b"@every 1h30m",
    b"2026-01-02T03:04:05.000006+01:00",
    b'{"f:metadata":{"k:{\\"name\\":\\"a\\"}":{".":{},"v:1":{}},"i:0":{}}}',
)


def read_selectors(data: bytes) -> None:
    """Read a text as a selector, and with every other parser of a small grammar."""
    text = data.decode("utf-8", "replace")
    for parse, error in _PARSERS:
        with suppress(error):
            parse(text)


# -- expressions and paths -------------------------------------------------------------------------------------------

CEL_ERRORS = (CelError,)
_ENVIRONMENT = Environment({"x": DYN, "names": list_of(STRING), "text": STRING}, libraries=(BINDINGS,))
EXPRESSIONS = (
    b"x.a == 1 && names.all(n, n.startsWith('a')) || text.matches('^a+$')",
    b"cel.bind(v, [1, 2].map(i, i * 2), v.exists(i, i > 3) ? {'a': v[?0].orValue(1)} : {})",
    b"quantity('1Ki').isLessThan(quantity('1M')) && timestamp('2026-01-02T03:04:05Z').getHours() > 1",
    b"'%s %d'.format([dyn(text), dyn(size(names))]).replace('a', 'b').split(' ')[0] in {'c': 1u}",
    b"url('https://a.b/c').getHost() + string(ip('10.0.0.1').family() + b'\\x00'.size() + 0x1f) + string(-1.5e3)",
)


def read_expression(data: bytes) -> None:
    program = _ENVIRONMENT.compile(data.decode("utf-8", "replace"))
    result = program.run({"x": {"a": 1, "b": [1, "c"]}, "names": ["a", "b"], "text": "ab"})
    assert result.cost <= limits.CEL_COST


JSONPATH_ERRORS = (JsonPathError,)
JSONPATHS = (
    b'{range .spec.containers[*]}{.name}{"\\t"}{.env[?(@.name=="x")].value}{"\\n"}{end}',
    b"{.metadata['labels','finalizers']}{..name}{.spec.containers[0:-1:1]}{$.a\\.b}",
)


def read_jsonpath(data: bytes) -> None:
    template = JsonPathTemplate(data.decode("utf-8", "replace"))
    template.render(DOCUMENT)


# -- custom resources ------------------------------------------------------------------------------------------------

SCHEMAS = (
    b'{"type":"object","properties":{"spec":{"type":"object","required":["a"],"properties":{"a":{"type":"string",'
    b'"pattern":"^(a|b)+$","maxLength":9,"default":"a","enum":["a","ab"]},"l":{"type":"array","maxItems":5,'
    b'"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],'
    b'"properties":{"k":{"type":"string"}}}}},"x-kubernetes-validations":[{"rule":"self.a.size() < 5","message":"m",'
    b'"messageExpression":"self.a","fieldPath":".a"}]}}}\n{"spec":{"a":"ab","l":[{"k":"1"},{"k":"2"}]}}',
    b'{"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":9,"multipleOf":2,"format":"int32"},'
    b'"e":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},'
    b'"i":{"x-kubernetes-int-or-string":true},"o":{"type":"object","additionalProperties":{"type":"string","format":'
    b'"date-time","nullable":true},"oneOf":[{"required":["a"]},{"not":{"required":["b"]}}]}}}\n'
    b'{"n":4,"e":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}},"i":"5%","o":{"a":null}}',
)


def read_schema(data: bytes) -> None:
    """Validate the schema in the first line as that of a CustomResourceDefinition. If it is valid, the object in the
    second line is validated with it."""
    first, _, second = data.partition(b"\n")
    try:
        validation = msgspec.json.decode(b'{"openAPIV3Schema":%s}' % first, type=CustomResourceValidation)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return
    if next(iter(list(validate_schema(validation, "spec", has_status=True))), None) is not None:
        return
    assert validation.openAPIV3Schema is not None
    schema = CompiledSchema(json_codec.to_value(validation.openAPIV3Schema))
    try:
        value = json_codec.read_any(second)
    except DecodeError:
        return
    if isinstance(value, dict):
        for old in (None, {}, value):
            list(schema.validate(value, old))
            list(schema.validate_invariants(value, old))
            schema.validate_rules(value, old)


# -- files of the command line ---------------------------------------------------------------------------------------

KUBECONFIG_ERRORS = (kubeconfig.KubeconfigError,)
KUBECONFIGS = (
    b"kind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: c, user: u, namespace: n}}]\n"
    b"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:6443', certificate-authority-data: YQ==,"
    b" proxy-url: 'http://p', tls-server-name: x}}]\n"
    b"users: [{name: u, user: {token: t, client-certificate-data: YQ==, client-key-data: YQ==, as: b, as-groups: [g],"
    b" as-user-extra: {k: [v]}}}]\n",
    b"current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
    b"clusters: [{name: c, cluster: {server: 'https://x'}}]\nusers: [{name: u, user: {exec: {apiVersion: "
    b"client.authentication.k8s.io/v1, command: nothing, args: [a], env: [{name: A, value: b}],"
    b" interactiveMode: Never}}}]\n",
    b"current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
    b"clusters: [{name: c, cluster: {server: 'https://x'}}]\nusers: [{name: u, user: {username: a, password: b,"
    b" auth-provider: {name: oidc, config: {id-token: a.b.c, client-id: c, idp-issuer-url: 'https://x'}}}}]\n",
)


def read_kubeconfig(data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="fuzz-kubeconfig-") as directory:
        path = Path(directory) / "config"
        path.write_bytes(data)
        kubeconfig.load(path)


KUSTOMIZE_ERRORS = (KubectlError,)
KUSTOMIZATIONS = (
    b"resources: [pod.yaml]\nnamePrefix: a-\nnamespace: n\ncommonLabels: {a: b}\nimages: [{name: x, newTag: '1'}]\n"
    b"configMapGenerator: [{name: m, literals: [a=b]}]\n---\n"
    b"kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec: {containers: [{name: c, image: x, envFrom: "
    b"[{configMapRef: {name: m}}]}]}\n",
    b"resources: [pod.yaml]\npatches: [{target: {kind: Po.*}, patch: '[{op: add, path: /metadata/labels, "
    b"value: {}}]'}]\n"
    b"replacements: [{source: {kind: Pod, fieldPath: metadata.name}, targets: [{select: {kind: Pod}, fieldPaths: "
    b"['spec.containers.[name=c].image']}]}]\nnameSuffix: -z\n---\n"
    b"kind: Pod\napiVersion: v1\nmetadata: {name: p}\nspec: {containers: [{name: c, image: x}]}\n",
)


def read_kustomization(data: bytes) -> None:
    """Build a kustomization. Its resource follows after a document separator."""
    first, _, second = data.partition(b"\n---\n")
    with tempfile.TemporaryDirectory(prefix="fuzz-kustomize-") as directory:
        (Path(directory) / "kustomization.yaml").write_bytes(first)
        (Path(directory) / "pod.yaml").write_bytes(second)
        build(directory)
