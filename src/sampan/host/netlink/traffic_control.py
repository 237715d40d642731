"""Bandwidth limits of links, as with the CNI plugin `bandwidth`: token buckets, and the redirection of arriving
packets to a device that has one."""

from __future__ import annotations

import socket
import struct

from sampan.host.netlink import constants as nl
from sampan.host.netlink.messages import (
    NetlinkMessage,
    attribute,
    nested_attribute,
    text_attribute,
    u32_attribute,
)
from sampan.host.netlink.routing import link_body

_MESSAGE = struct.Struct("=BxxxiIII")
"""struct tcmsg: family, index, handle, parent, info."""
_RATE = struct.Struct("=BBHhHI")
"""struct tc_ratespec: cell size, link layer, overhead, alignment, smallest packet, bytes per second."""
_LIMITS = struct.Struct("=III")
"""The end of struct tc_tbf_qopt: limit of the queue in bytes, depth of the bucket in ticks, packet size in ticks."""
_SELECTOR = struct.Struct("=BBBxHHhhI")
"""struct tc_u32_sel: flags, shift of the offset, number of keys, mask of the offset, offset, three for hashing."""
_KEY_BYTES = 16
"""The length of struct tc_u32_key. A key of zeros matches each packet."""
_MIRRED = struct.Struct("=IIiiiiI")
"""struct tc_mirred: index, capabilities, action, two counts of references, direction, index of the link."""
_HANDLE, _INGRESS_HANDLE = 0x10000, 0xFFFF0000
_PRIORITY = 1 << 16
_FIRST_ACTION = 1
_BURST_S, _LATENCY_S = 0.05, 0.025
_MIN_BURST_BYTES = 3_200
"""A burst that has room for two packets, even if the rate is very low."""
_MAX_U32 = 0xFFFFFFFF
_ADD, _SET = nl.NLM_F_CREATE | nl.NLM_F_EXCL, nl.NLM_F_CREATE | nl.NLM_F_REPLACE


def encode_shaper_creation(name: str, *, mtu: int) -> NetlinkMessage:
    """Encode the creation of an intermediate device (ifb), which is brought up."""
    kind = nested_attribute(nl.IFLA_LINKINFO, text_attribute(nl.IFLA_INFO_KIND, "ifb"))
    return NetlinkMessage(nl.RTM_NEWLINK, link_body(flags=nl.IFF_UP, name=name, mtu=mtu) + kind, _ADD)


def encode_token_bucket(index: int, bits_per_s: int) -> NetlinkMessage:
    """Encode a token bucket that limits the traffic sent through a link. An existing token bucket is replaced."""
    rate = bits_per_s // 8
    burst = max(int(rate * _BURST_S), _MIN_BURST_BYTES)
    limit = min(int(rate * _LATENCY_S) + burst, _MAX_U32)
    parameters = _RATE.pack(0, nl.TC_LINKLAYER_ETHERNET, 0, 0, 0, min(rate, _MAX_U32)) + bytes(_RATE.size)
    options = attribute(nl.TCA_TBF_PARMS, parameters + _LIMITS.pack(limit, 0, 0))
    options += attribute(nl.TCA_TBF_RATE64, struct.pack("=Q", rate)) if rate > _MAX_U32 else b""
    options += u32_attribute(nl.TCA_TBF_BURST, min(burst, _MAX_U32))
    body = _MESSAGE.pack(0, index, _HANDLE, nl.TC_H_ROOT, 0) + text_attribute(nl.TCA_KIND, "tbf")
    return NetlinkMessage(nl.RTM_NEWQDISC, body + nested_attribute(nl.TCA_OPTIONS, options), _SET)


def encode_redirection(index: int, shaper: int) -> list[NetlinkMessage]:
    """Encode the redirection of traffic that arrives at a link to its intermediate device.

    The link must not have a redirection yet.
    """
    queue = _MESSAGE.pack(0, index, _INGRESS_HANDLE, nl.TC_H_INGRESS, 0) + text_attribute(nl.TCA_KIND, "ingress")
    every_packet = _SELECTOR.pack(nl.TC_U32_TERMINAL, 0, 1, 0, 0, 0, 0, 0) + bytes(_KEY_BYTES)
    mirred = _MIRRED.pack(0, 0, nl.TC_ACT_STOLEN, 0, 0, nl.TCA_EGRESS_REDIR, shaper)
    action = nested_attribute(
        _FIRST_ACTION,
        text_attribute(nl.TCA_ACT_KIND, "mirred"),
        nested_attribute(nl.TCA_ACT_OPTIONS, attribute(nl.TCA_MIRRED_PARMS, mirred)),
    )
    options = attribute(nl.TCA_U32_SEL, every_packet) + nested_attribute(nl.TCA_U32_ACT, action)
    info = _PRIORITY | socket.htons(nl.ETH_P_ALL)
    body = _MESSAGE.pack(0, index, 0, _INGRESS_HANDLE, info) + text_attribute(nl.TCA_KIND, "u32")
    return [
        NetlinkMessage(nl.RTM_NEWQDISC, queue, _ADD),
        NetlinkMessage(nl.RTM_NEWTFILTER, body + nested_attribute(nl.TCA_OPTIONS, options), _ADD),
    ]
