"""NetworkPolicy: which network traffic is allowed to and from pods."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from sampan.api import addresses, names
from sampan.api.field_errors import FieldError
from sampan.api.selectors.label_selector import selector_errors
from sampan.api.types.networking_v1 import (
    IPBlock,
    NetworkPolicy,
    NetworkPolicyPeer,
    NetworkPolicyPort,
    NetworkPolicySpec,
)
from sampan.apiserver.registry.behavior import ResourceBehavior
from sampan.apiserver.registry.strategy import Column, Context, Strategy
from sampan.apiserver.registry.validation import FieldErrors, cidr_warnings, validate_optional_one_of
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import AGE, NAME

_TYPES, _PROTOCOLS = ("Ingress", "Egress"), ("TCP", "UDP", "SCTP")

Rule = tuple[str, Sequence[NetworkPolicyPort], str, Sequence[NetworkPolicyPeer]]
"""The path of a rule, its ports, and the field name of its peers with the peers."""


class NetworkPolicyStrategy(Strategy):
    counts_generation = True
    columns = (
        NAME,
        Column(
            "Pod-Selector",
            lambda network_policy, now: cells.selector(network_policy.spec.podSelector),
            field="spec.podSelector",
        ),
        AGE,
    )

    def default(self, obj: NetworkPolicy) -> None:
        for _, ports, _, _ in _rules(obj.spec):
            for port in ports:
                if port.protocol is None:
                    port.protocol = "TCP"
        if not obj.spec.policyTypes:
            obj.spec.policyTypes = list(_TYPES) if obj.spec.egress else ["Ingress"]

    def validate_create(self, ctx: Context, obj: NetworkPolicy) -> Iterable[FieldError]:
        return _validate_spec(obj.spec, "spec")

    def validate_update(self, ctx: Context, obj: NetworkPolicy, old: NetworkPolicy) -> Iterable[FieldError]:
        allow_bad_values = bool(selector_errors(old.spec.podSelector, ""))
        old_cidrs = {cidr for _, block in _blocks(old.spec) for cidr in (block.cidr, *block.except_)}
        return _validate_spec(obj.spec, "spec", allow_bad_values=allow_bad_values, old_cidrs=old_cidrs)

    def warnings(self, ctx: Context, obj: NetworkPolicy, old: NetworkPolicy | None) -> Iterable[str]:
        for path, block in _blocks(obj.spec):
            yield from cidr_warnings(block.cidr, f"{path}.cidr")
            for index, cidr in enumerate(block.except_):
                yield from cidr_warnings(cidr, f"{path}.except[{index}]")


def _rules(spec: NetworkPolicySpec) -> Iterator[Rule]:
    for index, ingress in enumerate(spec.ingress):
        yield f"ingress[{index}]", ingress.ports, "from", ingress.from_
    for index, egress in enumerate(spec.egress):
        yield f"egress[{index}]", egress.ports, "to", egress.to


def _blocks(spec: NetworkPolicySpec) -> Iterator[tuple[str, IPBlock]]:
    for path, _, name, peers in _rules(spec):
        for index, peer in enumerate(peers):
            if peer.ipBlock is not None:
                yield f"spec.{path}.{name}[{index}].ipBlock", peer.ipBlock


def _validate_spec(
    spec: NetworkPolicySpec, start: str, *, allow_bad_values: bool = False, old_cidrs: Collection[str] = ()
) -> FieldErrors:
    """Yield the errors of a spec. `old_cidrs` are CIDRs of the old object, which are not validated again."""
    yield from selector_errors(spec.podSelector, f"{start}.podSelector", allow_bad_values=allow_bad_values)
    for path, ports, name, peers in _rules(spec):
        for index, port in enumerate(ports):
            yield from _validate_port(port, f"{start}.{path}.ports[{index}]")
        for index, peer in enumerate(peers):
            yield from _validate_peer(peer, f"{start}.{path}.{name}[{index}]", allow_bad_values, old_cidrs)
    path = f"{start}.policyTypes"
    if len(spec.policyTypes) > len(_TYPES):
        yield FieldError.invalid(path, spec.policyTypes, "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(spec.policyTypes):
        yield from validate_optional_one_of(kind, _TYPES, f"{path}[{index}]")


def _validate_port(port: NetworkPolicyPort, path: str) -> FieldErrors:
    yield from validate_optional_one_of(port.protocol, _PROTOCOLS, f"{path}.protocol")
    first, last = port.port, port.endPort
    if isinstance(first, int):
        for text in names.port_number(first):
            yield FieldError.invalid(f"{path}.port", first, text)
        if last is not None and last < first:
            yield FieldError.invalid(f"{path}.endPort", last, "must be greater than or equal to `port`")
        for text in names.port_number(last) if last is not None else ():
            yield FieldError.invalid(f"{path}.endPort", last, text)
        return
    if last is not None:
        why = "not specified" if first is None else "non-numeric"
        yield FieldError.invalid(f"{path}.endPort", last, f"may not be specified when `port` is {why}")
    for text in names.port_name(first) if first is not None else ():
        yield FieldError.invalid(f"{path}.port", first, text)


def _validate_peer(
    peer: NetworkPolicyPeer, path: str, allow_bad_values: bool, old_cidrs: Collection[str]
) -> FieldErrors:
    yield from selector_errors(peer.podSelector, f"{path}.podSelector", allow_bad_values=allow_bad_values)
    yield from selector_errors(peer.namespaceSelector, f"{path}.namespaceSelector", allow_bad_values=allow_bad_values)
    has_selector = peer.podSelector is not None or peer.namespaceSelector is not None
    if peer.ipBlock is not None:
        yield from _validate_ip_block(peer.ipBlock, f"{path}.ipBlock", old_cidrs)
        if has_selector:
            yield FieldError.forbidden(path, "may not specify both ipBlock and another peer")
    elif not has_selector:
        yield FieldError.required(path, "must specify a peer")


def _validate_ip_block(block: IPBlock, field_path: str, old_cidrs: Collection[str]) -> FieldErrors:
    if not block.cidr:
        return  # the tag of the field requires it
        return
    if block.cidr not in old_cidrs:
        yield from addresses.legacy_cidr(block.cidr, f"{field_path}.cidr")
    network = addresses.parse_network(block.cidr)
    if network is None:
        return
    for index, text in enumerate(block.except_):
        path = f"{field_path}.except[{index}]"
        if text not in old_cidrs:
            yield from addresses.legacy_cidr(text, path)
        part = addresses.parse_network(text)
        if part is not None and not _is_part(part, network):
            yield FieldError.invalid(path, text, "must be a strict subset of `cidr`")


def _is_part(part: addresses.Network, whole: addresses.Network) -> bool:
    return part.network_address in whole and part.prefixlen > whole.prefixlen


BEHAVIOR = ResourceBehavior(strategy=NetworkPolicyStrategy())
