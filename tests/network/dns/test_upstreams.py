"""The choice of upstream resolvers."""

from __future__ import annotations

from pathlib import Path

import pytest

from sampan.network.dns import upstreams
from sampan.network.dns.upstreams import (
    UpstreamAddress,
    UpstreamConfig,
    choose_upstreams,
    nameservers_of,
    node_resolv_conf,
)
from sampan.network.dns.wire import name_bytes


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.2", "10.0.0.2", 53),
        ("10.0.0.2:5353", "10.0.0.2", 5353),
        ("fd00::2", "fd00::2", 53),
        ("[fd00::2]:5353", "fd00::2", 5353),
        ("[fd00::2]", "fd00::2", 53),
    ],
)
def test_addresses_are_parsed(text: str, host: str, port: int) -> None:
    address = UpstreamAddress.parse(text)
    assert address == UpstreamAddress(host, port)
    assert UpstreamAddress.parse(str(address)) == address


@pytest.mark.parametrize("text", ["", "example.com", "10.0.0.2:0", "10.0.0.2:99999", "10.0.0.2:x", "[fd00::2"])
def test_bad_addresses_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|port|int\(\)"):
        UpstreamAddress.parse(text)


def test_nameservers_are_read_from_resolv_conf(tmp_path: Path) -> None:
    file = tmp_path / "resolv.conf"
    file.write_text(
        "# comment\nnameserver 10.0.0.2 # first\nnameserver\nnameserver bad\nsearch x\n"
        "nameserver fe80::1%eth0\nnameserver 10.0.0.2\n"
    )
    assert nameservers_of(file) == (UpstreamAddress("10.0.0.2"), UpstreamAddress("fe80::1%eth0"))
    assert nameservers_of(tmp_path / "none") == ()


@pytest.mark.parametrize(
    ("etc", "real", "expected"),
    [
        ("nameserver 10.0.0.2", None, "10.0.0.2 (etc)"),
        ("nameserver 127.0.0.53", "nameserver 10.0.0.3", "10.0.0.3 (real)"),
        ("nameserver 127.0.0.53", None, "127.0.0.53 (etc)"),
        ("nameserver 127.0.0.11", "nameserver 10.0.0.3", "127.0.0.11 (etc)"),
        ("", "nameserver 10.0.0.3", "nowhere (no nameserver in etc)"),
    ],
)
def test_choice_of_resolv_conf(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, etc: str, real: str | None, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(upstreams, "RESOLV_CONF", Path("etc"))
    monkeypatch.setattr(upstreams, "SYSTEMD_RESOLV_CONF", Path("real"))
    Path("etc").write_text(etc)
    if real is not None:
        Path("real").write_text(real)
    assert str(choose_upstreams(UpstreamConfig())) == expected


def test_longest_stub_domain_wins() -> None:
    first, second, third = (UpstreamAddress(f"10.0.0.{number}") for number in (1, 2, 3))
    choice = choose_upstreams(UpstreamConfig(servers=[first], stub_domains={"a.b": [second], "x.a.b": [third]}))
    assert choice.servers_for(name_bytes("c.x.a.b")) == (third,)
    assert choice.servers_for(name_bytes("xx.a.b")) == (second,)
    assert choice.servers_for(name_bytes("b")) == (first,)
    assert str(choice) == "10.0.0.1 (set explicitly)"


@pytest.mark.parametrize(
    ("servers", "expected"),
    [
        (["10.0.0.2", "127.0.0.53"], ["nameserver 10.0.0.2"]),
        (["127.0.0.11"], ["nameserver 10.96.0.10"]),
        (["10.0.0.2:5353"], ["nameserver 10.96.0.10"]),
        ([], ["nameserver 10.96.0.10"]),
    ],
)
def test_pods_get_resolvers_that_they_can_reach(servers: list[str], expected: list[str]) -> None:
    config = UpstreamConfig(servers=[UpstreamAddress.parse(text) for text in servers], resolv_conf=Path("/dev/null"))
    text = node_resolv_conf("search a.b\nnameserver 127.0.0.53\n", choose_upstreams(config), ["10.96.0.10"])
    assert text.splitlines() == ["search a.b", *expected]
