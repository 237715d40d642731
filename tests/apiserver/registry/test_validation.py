"""Errors of endpoint addresses, and warnings about the notation of IP addresses and CIDRs."""

import pytest

from sampan.apiserver.registry.validation import cidr_warnings, ip_warnings, validate_endpoint_ip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("10.1.2.3", ""),
        ("2001:db8::1", ""),
        ("224.1.1.1", ""),
        ("nope", "must be a valid IP address"),
        ("0.0.0.0", "may not be unspecified (0.0.0.0)"),
        ("127.1.1.1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ("::1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ("169.254.1.1", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        ("fe80::1", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        ("224.0.0.5", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
        ("ff02::5", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ],
)
def test_invalid_endpoint_addresses_are_rejected(text: str, message: str) -> None:
    assert [error.detail for error in validate_endpoint_ip(text, "ip")] == ([message] if message else [])


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("10.1.2.3", ""),
        ("fd00::1", ""),
        ("nope", ""),
        ("010.1.2.3", 'at: non-standard IP address "010.1.2.3" is invalid: use "10.1.2.3"'),
        ("::ffff:1.2.3.4", 'at: non-standard IP address "::ffff:1.2.3.4" is invalid: use "1.2.3.4"'),
        ("FD00::1", 'at: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")'),
        ("fd00:0::1", 'at: IPv6 address "fd00:0::1" should be in RFC 5952 canonical format ("fd00::1")'),
    ],
)
def test_non_canonical_ip_addresses_get_a_warning(text: str, warning: str) -> None:
    assert list(ip_warnings(text, "at")) == ([warning] if warning else [])


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("10.1.2.0/24", ""),
        ("fd00::/64", ""),
        ("nope", ""),
        ("10.1.2.0/99", ""),
        (
            "10.1.2.3/24",
            'at: CIDR value "10.1.2.3/24" is ambiguous in this context (should be "10.1.2.0/24" or "10.1.2.3/32"?)',
        ),
        ("010.1.2.0/24", 'at: non-standard CIDR value "010.1.2.0/24" is invalid: use "10.1.2.0/24"'),
        ("FD00::/64", 'at: IPv6 CIDR value "FD00::/64" should be in RFC 5952 canonical format ("fd00::/64")'),
    ],
)
def test_non_canonical_cidrs_get_a_warning(text: str, warning: str) -> None:
    assert list(cidr_warnings(text, "at")) == ([warning] if warning else [])
