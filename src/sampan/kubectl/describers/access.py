"""Descriptions of service accounts, roles, bindings and certificate signing requests."""

from __future__ import annotations

import base64
from collections.abc import Iterable

from sampan.api.values.ages import format_age
from sampan.kubectl.describers.cluster_view import ClusterView
from sampan.kubectl.describers.compact_rules import compact_rules, resource_text
from sampan.kubectl.describers.layout import (
    NONE,
    Lines,
    Value,
    format_labels,
    go_text,
    heading,
    items,
    meta,
    part,
    time_text,
)
from sampan.machinery.cli_errors import CliError

_EMPTY_TITLE = "                   "


def describe_service_account(obj: Value, view: ClusterView) -> Lines:
    yield from heading(obj)
    names = [str(ref.get("name", "")) for ref in obj.get("imagePullSecrets") or ()] or [NONE]
    yield f"Image pull secrets:\t{names[0]}"
    yield from (f"{_EMPTY_TITLE}\t{name}" for name in names[1:])
    yield from view.events(obj, kind="ServiceAccount")


def describe_role(obj: Value, view: ClusterView) -> Lines:
    yield from heading(obj, has_namespace=False)
    yield "PolicyRule:"
    yield "  Resources\tNon-Resource URLs\tResource Names\tVerbs"
    yield "  ---------\t-----------------\t--------------\t-----"
    for rule in compact_rules(obj.get("rules") or ()):
        cells = [go_text(items(rule, field)) for field in ("nonResourceURLs", "resourceNames", "verbs")]
        yield f"  {resource_text(rule)}\t" + "\t".join(cells)


def describe_binding(obj: Value, view: ClusterView) -> Lines:
    role = part(obj, "roleRef")
    yield from heading(obj, has_namespace=False)
    yield "Role:"
    yield f"  Kind:\t{role.get('kind', '')}"
    yield f"  Name:\t{role.get('name', '')}"
    yield "Subjects:"
    yield "  Kind\tName\tNamespace"
    yield "  ----\t----\t---------"
    for subject in obj.get("subjects") or ():
        yield f"  {subject.get('kind', '')}\t{subject.get('name', '')}\t{subject.get('namespace', '')}"


def describe_signing_request(obj: Value, view: ClusterView) -> Lines:
    spec, metadata = part(obj, "spec"), meta(obj)
    yield f"Name:\t{metadata.get('name')}"
    yield f"Labels:\t{format_labels(metadata.get('labels'))}"
    yield f"Annotations:\t{format_labels(metadata.get('annotations'))}"
    yield f"CreationTimestamp:\t{time_text(metadata.get('creationTimestamp'))}"
    yield f"Requesting User:\t{spec.get('username', '')}"
    if spec.get("signerName"):
        yield f"Signer:\t{spec['signerName']}"
    if spec.get("expirationSeconds") is not None:
        yield f"Requested Duration:\t{format_age(spec['expirationSeconds'])}"
    yield f"Status:\t{_request_status(obj)}"
    yield from _request_content(str(spec.get("request", "")))
    yield from view.events(obj, kind="CertificateSigningRequest")


def _request_status(obj: Value) -> str:
    types = {condition.get("type") for condition in items(obj, "status", "conditions")}
    text = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    text += ",Failed" if "Failed" in types else ""
    return text + (",Issued" if part(obj, "status").get("certificate") else "")


def _request_content(encoded: str) -> Lines:
    """Yield the subject and the alternative names of a certificate request."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        request = x509.load_pem_x509_csr(base64.b64decode(encoded))
    except ValueError as error:
        raise CliError(f"Error parsing CSR: {error}") from None

    def values(oid: x509.ObjectIdentifier) -> list[str]:
        return [str(attribute.value) for attribute in request.subject.get_attributes_for_oid(oid)]

    yield "Subject:"
    yield f"\tCommon Name:\t{''.join(values(NameOID.COMMON_NAME)[-1:])}"
    yield f"\tSerial Number:\t{''.join(values(NameOID.SERIAL_NUMBER)[-1:])}"
    for title, oid in (
        ("Organization", NameOID.ORGANIZATION_NAME),
        ("Organizational Unit", NameOID.ORGANIZATIONAL_UNIT_NAME),
        ("Country", NameOID.COUNTRY_NAME),
        ("Locality", NameOID.LOCALITY_NAME),
        ("Province", NameOID.STATE_OR_PROVINCE_NAME),
        ("StreetAddress", NameOID.STREET_ADDRESS),
        ("PostalCode", NameOID.POSTAL_CODE),
    ):
        yield from _values(title, values(oid))
    try:
        names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return
    yield "Subject Alternative Names:"
    yield from _values("DNS Names", names.get_values_for_type(x509.DNSName))
    yield from _values("Email Addresses", names.get_values_for_type(x509.RFC822Name))
    yield from _values("URIs", names.get_values_for_type(x509.UniformResourceIdentifier))
    yield from _values("IP Addresses", (str(address) for address in names.get_values_for_type(x509.IPAddress)))


def _values(title: str, values: Iterable[str]) -> Lines:
    for index, value in enumerate(values):
        yield f"\t{title}:\t{value}" if not index else f"\t\t{value}"
