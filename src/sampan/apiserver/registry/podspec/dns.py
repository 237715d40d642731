"""Validation of a pod's DNS configuration, host aliases and hostname."""

from sampan.api import addresses, names
from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import HostAlias, PodDNSConfig, PodSpec
from sampan.apiserver.registry.podspec.formats import FieldErrors, validate_dns_subdomain

_NAMESERVERS_MOST = 3
_SEARCHES_MOST = 32
_SEARCH_CHARACTERS_MOST = 2048
_HOSTNAME_MOST = 64


def validate_dns(spec: PodSpec, at: str) -> FieldErrors:
    config = spec.dnsConfig
    if spec.dnsPolicy == "None":
        if config is None:
            yield FieldError.required(at, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.nameservers:
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield FieldError.required(f"{at}.nameservers", text)
            return
    if config is not None:
        yield from _validate_nameservers(config, f"{at}.nameservers")
        yield from _validate_searches(config, f"{at}.searches")
        for index, option in enumerate(config.options):
            if not option.name:
                yield FieldError.required(f"{at}.options[{index}]", "must not be empty")


def _validate_nameservers(config: PodDNSConfig, at: str) -> FieldErrors:
    if len(config.nameservers) > _NAMESERVERS_MOST:
        text = f"must not have more than {_NAMESERVERS_MOST} nameservers"
        yield FieldError.invalid(at, config.nameservers, text)
    for index, server in enumerate(config.nameservers):
        yield from addresses.legacy_ip(server, f"{at}[{index}]")


def _validate_searches(config: PodDNSConfig, at: str) -> FieldErrors:
    searches = config.searches
    if len(searches) > _SEARCHES_MOST:
        yield FieldError.invalid(at, searches, f"must not have more than {_SEARCHES_MOST} search paths")
    if len(" ".join(searches).encode()) > _SEARCH_CHARACTERS_MOST:
        text = f"must not have more than {_SEARCH_CHARACTERS_MOST} characters (including spaces) in the search list"
        yield FieldError.invalid(at, searches, text)
    for index, search in enumerate(searches):
        if search == ".":
            continue
        domain = search.removesuffix(".")
        for text in names.dns1123_subdomain_with_underscore(domain):
            yield FieldError.invalid(f"{at}[{index}]", domain, text)


def validate_host_alias(aliases: list[HostAlias], at: str) -> FieldErrors:
    for index, alias in enumerate(aliases):
        yield from addresses.legacy_ip(alias.ip, f"{at}[{index}].ip")
        for hostname_index, hostname in enumerate(alias.hostnames):
            yield from validate_dns_subdomain(hostname, f"{at}[{index}].hostnames[{hostname_index}]")


def validate_hostname_override(spec: PodSpec, at: str) -> FieldErrors:
    override = spec.hostnameOverride
    if override is None:
        return
    if spec.setHostnameAsFQDN:
        yield FieldError.forbidden(at, "may not be specified when setHostnameAsFQDN is true")
    if spec.hostNetwork:
        yield FieldError.forbidden(at, "may not be specified when hostNetwork is true")
    if len(override.encode()) > _HOSTNAME_MOST:
        yield FieldError.too_long(at, _HOSTNAME_MOST)
    yield from validate_dns_subdomain(override, at)
