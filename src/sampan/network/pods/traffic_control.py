"""Bandwidth limits of a pod's link, as messages to the kernel's traffic control.

As with the CNI plug-in `bandwidth`, a token bucket on the host end of the veth pair limits what the pod receives. What
it sends arrives at the host end, where it can only be redirected: to an intermediate device (ifb), which has the token
bucket. A pod with CAP_NET_ADMIN can change neither.
"""

from __future__ import annotations

import struct

from sampan.network.netlink import NetlinkMessage, attribute, link_body, number_attribute, text_attribute

_NEW_LINK, _NEW_QDISC, _NEW_FILTER = 16, 36, 44
_CREATE, _REPLACE, _EXCLUSIVE = 0x400, 0x100, 0x200
_ROOT, _INGRESS, _INGRESS_HANDLE, _HANDLE = 0xFFFFFFFF, 0xFFFFFFF1, 0xFFFF0000, 0x10000
_UP = 1
_IFLA_LINKINFO, _INFO_KIND = 18, 1
_TCA_KIND, _TCA_OPTIONS = 1, 2
_TBF_PARAMETERS, _TBF_RATE64, _TBF_BURST = 1, 4, 6
_U32_SELECTOR, _U32_ACTIONS = 5, 7
_ACTION_KIND, _ACTION_OPTIONS, _MIRRED_PARAMETERS = 1, 2, 2
_STOLEN, _REDIRECT_TO_EGRESS = 4, 1
_ALL_PROTOCOLS = struct.unpack("=H", struct.pack("!H", 3))[0]
_MESSAGE = struct.Struct("=BxxxiIII")
"""struct tcmsg: family, index, handle, parent, info."""
_RATE = struct.Struct("=BBHhHI")
"""struct tc_ratespec: cell size, link layer, overhead, alignment, smallest packet, bytes per second."""
_LIMITS = struct.Struct("=III")
"""The end of struct tc_tbf_qopt: limit of the queue in bytes, depth of the bucket in ticks, packet size in ticks."""
_ETHERNET = 1
_BURST_S, _LATENCY_S = 0.05, 0.025
_SMALLEST_BURST = 3_200
"""A burst in bytes that has room for two packets, even if the rate is very low."""


def shaper_of(link: str) -> str:
    """Return the name of the intermediate device of a pod's link."""
    return link.replace("-", "~")


def new_shaper(name: str, *, mtu: int) -> NetlinkMessage:
    """Create an intermediate device, and bring it up."""
    body = link_body(flags=_UP, name=name, mtu=mtu) + attribute(_IFLA_LINKINFO, text_attribute(_INFO_KIND, "ifb"))
    return NetlinkMessage(type=_NEW_LINK, body=body, flags=_CREATE | _EXCLUSIVE)


def token_bucket(index: int, bits_per_s: int) -> NetlinkMessage:
    """Limit what is sent through a link, or change the limit."""
    rate = bits_per_s // 8
    burst = max(int(rate * _BURST_S), _SMALLEST_BURST)
    limit = min(int(rate * _LATENCY_S) + burst, 0xFFFFFFFF)
    parameters = _RATE.pack(0, _ETHERNET, 0, 0, 0, min(rate, 0xFFFFFFFF)) + bytes(_RATE.size)
    options = attribute(_TBF_PARAMETERS, parameters + _LIMITS.pack(limit, 0, 0))
    options += attribute(_TBF_RATE64, struct.pack("=Q", rate)) if rate > 0xFFFFFFFF else b""
    options += number_attribute(_TBF_BURST, min(burst, 0xFFFFFFFF))
    body = _MESSAGE.pack(0, index, _HANDLE, _ROOT, 0) + text_attribute(_TCA_KIND, "tbf")
    return NetlinkMessage(type=_NEW_QDISC, body=body + attribute(_TCA_OPTIONS, options), flags=_CREATE | _REPLACE)


def redirection(index: int, shaper: int) -> list[NetlinkMessage]:
    """Redirect what arrives at a link to its intermediate device. The link must not have a redirection yet."""
    queue = _MESSAGE.pack(0, index, _INGRESS_HANDLE, _INGRESS, 0) + text_attribute(_TCA_KIND, "ingress")
    every_packet = struct.pack("=BBBxHHhhI", 1, 0, 1, 0, 0, 0, 0, 0) + bytes(16)
    mirred = struct.pack("=IIiiiiI", 0, 0, _STOLEN, 0, 0, _REDIRECT_TO_EGRESS, shaper)
    action = text_attribute(_ACTION_KIND, "mirred")
    action += attribute(_ACTION_OPTIONS, attribute(_MIRRED_PARAMETERS, mirred))
    options = attribute(_U32_SELECTOR, every_packet) + attribute(_U32_ACTIONS, attribute(1, action))
    body = _MESSAGE.pack(0, index, 0, _INGRESS_HANDLE, 1 << 16 | _ALL_PROTOCOLS) + text_attribute(_TCA_KIND, "u32")
    return [
        NetlinkMessage(type=_NEW_QDISC, body=queue, flags=_CREATE | _EXCLUSIVE),
        NetlinkMessage(type=_NEW_FILTER, body=body + attribute(_TCA_OPTIONS, options), flags=_CREATE | _EXCLUSIVE),
    ]
