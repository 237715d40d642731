"""Names of bridges and links: they fit the kernel's limit and identify their owner."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.network.pods import BridgeConfig, bridge_for
from sampan.network.pods.config import hardware_for, is_link_of, link_for


@given(st.text(), st.text())
def test_link_names_identify_their_bridge(identity: str, uid: str) -> None:
    bridge = bridge_for(identity)
    link = link_for(bridge, uid)
    assert BridgeConfig(bridge=bridge).bridge == bridge == bridge_for(identity)
    assert len(link) <= 15
    assert is_link_of(bridge, link)
    assert not is_link_of("sampan0", link)
    assert not is_link_of(bridge, bridge)
    other = link_for(bridge, uid, {link})
    assert other != link
    assert is_link_of(bridge, other)


@pytest.mark.parametrize("name", ["", "toolongname", "a-b", "a/b", "A", "0a", 'a"b'])
def test_invalid_bridge_names_are_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="is not a bridge name"):
        BridgeConfig(bridge=name)


def test_hardware_address_is_derived_from_the_ip_address() -> None:
    assert hardware_for("10.1.0.2/24") == "0a:58:0a:01:00:02"
    assert hardware_for("fd00::2/64") == hardware_for("fd00::2/64") != hardware_for("fd00::3/64")
