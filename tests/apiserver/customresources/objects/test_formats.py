"""String formats of schemas."""

import pytest

from sampan.apiserver.customresources.objects.formats import format_check

UUID = "123e4567-e89b-42d3-a456-426614174000"


@pytest.mark.parametrize(
    ("name", "valid", "invalid"),
    [
        ("date-time", "2020-01-01T00:00:00.5+01:00", "2020-01-01 00:00:00"),
        ("date", "2020-02-29", "2021-02-29"),
        ("duration", "1h30m", "soon"),
        ("duration", "3 days", "3 moons"),
        ("ipv4", "10.0.0.1", "::1"),
        ("ipv6", "::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("cidr", "10.0.0.1/8", "10.0.0.1/33"),
        ("uuid", UUID, UUID[:-1]),
        ("uuid4", UUID, UUID.replace("-4", "-3")),
        ("email", "a@example.com", "example.com"),
        ("uri", "https://example.com/a?b=c", "example.com"),
        ("uri", "/path", "a b"),
        ("hostname", "a.example.com", "a..b"),
        ("byte", "aGVsbG8=", "%%%"),
        ("mac", "01:23:45:67:89:ab", "01:23:45"),
        ("isbn10", "3-401-01319-X", "3-401-01319-0"),
        ("isbn13", "978-3-8362-2119-1", "978-3-8362-2119-0"),
        ("creditcard", "5398228707871527", "5398228707871528"),
        ("hexcolor", "#a0b1c2", "#a0b1c"),
        ("rgbcolor", "rgb(0, 31, 255)", "rgb(0, 31, 256)"),
        ("ssn", "111-11-1111", "111-1-1111"),
        ("bsonobjectid", "507f1f77bcf86cd799439011", "507f1f77"),
        ("k8s-short-name", "a-b", "a.b"),
        ("k8s-long-name", "a.b", "A"),
    ],
)
def test_formats_accept_valid_and_reject_invalid_values(name: str, valid: str, invalid: str) -> None:
    check = format_check(name)
    assert check is not None
    assert (check(valid), check(invalid)) == (True, False)


def test_an_unknown_format_is_not_checked() -> None:
    assert format_check("color-of-the-sea") is None
