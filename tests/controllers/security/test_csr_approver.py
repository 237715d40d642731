"""What requests must look like for each signer."""

import pytest

from sampan.controllers.security.csr_approver import (
    CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    LEGACY,
    SIGNERS,
    UnreadableRequest,
    read,
    requested_of,
)
from tests.controllers.security.requests import pem, request

NODE = ("system:node:n1", "system:nodes")
USES = ("digital signature", "client auth")
SERVES = ("digital signature", "key encipherment", "server auth")


@pytest.mark.parametrize(
    ("signer", "content", "usages", "fault"),
    [
        (CLIENT, pem("ann", "team"), USES, ""),
        (CLIENT, pem("ann"), ("client auth",), ""),
        (CLIENT, pem("ann"), ("server auth", "client auth"), "invalid usage for client certificate: server auth"),
        (CLIENT, pem("ann"), ("digital signature",), "missing required usage for client certificate: client auth"),
        (KUBELET_CLIENT, pem(*NODE), USES, ""),
        (KUBELET_CLIENT, pem(*NODE), (*USES, "key encipherment"), ""),
        (KUBELET_CLIENT, pem(*NODE, "more"), USES, "subject organization is not system:nodes"),
        (KUBELET_CLIENT, pem(*NODE, names=["a.b"]), USES, "DNS subjectAltNames are not allowed"),
        (KUBELET_CLIENT, pem(*NODE, names=["10.0.0.1"]), USES, "IP subjectAltNames are not allowed"),
        (KUBELET_CLIENT, pem("ann", "system:nodes"), USES, "subject common name does not begin with system:node:"),
        (
            KUBELET_CLIENT,
            pem(*NODE),
            ("client auth",),
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (KUBELET_SERVING, pem(*NODE, names=["n1", "10.0.0.1"]), SERVES, ""),
        (KUBELET_SERVING, pem(*NODE), SERVES, "DNS or IP subjectAltName is required"),
        (KUBELET_SERVING, pem(*NODE, names=["n1", "a@b.c"]), SERVES, "Email subjectAltNames are not allowed"),
        (KUBELET_SERVING, pem(*NODE, names=["n1", "spiffe://x"]), SERVES, "URI subjectAltNames are not allowed"),
        (
            KUBELET_SERVING,
            pem("n1", "system:nodes", names=["n1"]),
            SERVES,
            "subject common name does not begin with system:node:",
        ),
        (LEGACY, pem("anybody"), ("cert sign",), ""),
    ],
)
def test_signers(signer: str, content: bytes, usages: tuple[str, ...], fault: str) -> None:
    new_request = request(content, signer, *usages)
    assert SIGNERS[signer](requested_of(read(new_request)), new_request.spec.usages) == fault


def test_what_is_no_request() -> None:
    with pytest.raises(UnreadableRequest, match="unable to parse csr 'csr'"):
        read(request(b"rubbish", CLIENT))
