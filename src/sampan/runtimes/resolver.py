"""The text of a pod's resolv.conf."""

from pathlib import Path

from sampan.runtimes.config import Dns

_NODE = Path("/etc/resolv.conf")


def resolv_conf(dns: Dns | None) -> str:
    """Return the text for a DNS configuration, or the resolv.conf of the node if there is none."""
    if dns is None:
        try:
            return _NODE.read_text()
        except OSError:
            return ""
    lines = [f"search {' '.join(dns.searches)}\n"] if dns.searches else []
    lines += [f"nameserver {server}\n" for server in dns.servers]
    return "".join([*lines, f"options {' '.join(dns.options)}\n" if dns.options else ""])
