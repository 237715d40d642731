"""The errors of addresses and prefixes are those of Go."""

import pytest

from sampan.api.go_compat.address_errors import address_error, prefix_error


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "unable to parse IP"),
        ("bad", "unable to parse IP"),
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("1..2.3", 'IPv4 field must have at least one digit (at ".2.3")'),
        (".1.2.3", 'IPv4 field must have at least one digit (at ".1.2.3")'),
        ("1.2.3.", 'IPv4 field must have at least one digit (at ".")'),
        ("1.2.3.256", "IPv4 field has value >255"),
        ("01.2.3.4", "IPv4 field has octet with leading zero"),
        ("1.2.3.x", 'unexpected character (at "x")'),
        ("%eth0", "missing IPv6 address"),
        ("::1%", "zone must be a non-empty string"),
        ("::1%x", ""),
        ("1::2::3", 'multiple :: in address (at ":3")'),
        (":1", 'each colon-separated field must have at least one digit (at ":1")'),
        ("1:", 'colon must be followed by more characters (at ":")'),
        ("1:2", "address string too short"),
        ("12345::", 'each group must have 4 or less digits (at "12345::")'),
        ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
        ("1:2:3:4:5:6:7::8", "the :: must expand to at least one field of zeros"),
        ("::g", 'each colon-separated field must have at least one digit (at "g")'),
        ("1:2:3:4:5:6:1.2.3.4", ""),
        ("::1.2.3", "IPv4 address too short"),
        ("1:1.2.3.4", 'embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")'),
        ("::", ""),
        ("::ffff:1.2.3.4", ""),
        ("1:2:3:4:5:6:7:8", ""),
        (
            "::1:2:3:4:5:6:7:1.2.3.4",
            'too many hex fields to fit an embedded IPv4 at the end of the address (at "1.2.3.4")',
        ),
        ("fe80::1 ", 'unexpected character, want colon (at " ")'),
    ],
)
def test_address_errors_are_those_of_go(text: str, why: str) -> None:
    assert address_error(text) == (f'ParseAddr("{text}"): {why}' if why else "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1.2.3.4", "no '/'"),
        ("1.2.3.4/", 'bad bits after slash: ""'),
        ("1.2.3.4/33", "prefix length out of range"),
        ("1.2.3.4/-1", 'bad bits after slash: "-1"'),
        ("1.2.3.4/08", 'bad bits after slash: "08"'),
        ("1.2.3.4/x", 'bad bits after slash: "x"'),
        ("::/129", "prefix length out of range"),
        ("x/8", 'ParseAddr("x"): unable to parse IP'),
        ("fe80::1%a/64", "IPv6 zones cannot be present in a prefix"),
        ("1.2.3.4/8", ""),
        ("1.2.3.4/0", ""),
        ("a/b/c", 'ParseAddr("a/b"): unable to parse IP'),
    ],
)
def test_prefix_errors_are_those_of_go(text: str, why: str) -> None:
    assert prefix_error(text) == (f'netip.ParsePrefix("{text}"): {why}' if why else "")
