"""Flags of the controller manager that name the certificate authorities of signers."""

import pytest

from sampan.cli.components import kube_controller_manager
from sampan.cli.flags.controllers import parse_signing_flags
from sampan.controllers.security.csr_approver import (
    KUBELET_CLIENT,
)
from sampan.machinery.cli_errors import CliError


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--cluster-signing-cert-file /dev/null", "give both or neither"),
        ("--cluster-signing-kubelet-client-key-file /dev/null", "--cluster-signing-kubelet-client-cert-file and"),
        ("--cluster-signing-duration 0s", "--cluster-signing-duration: must be greater"),
        (
            "--cluster-signing-cert-file /dev/null --cluster-signing-key-file /dev/null "
            "--cluster-signing-kubelet-serving-cert-file /dev/null "
            "--cluster-signing-kubelet-serving-key-file /dev/null",
            "cannot be given together",
        ),
    ],
)
def test_contradictory_flags_are_rejected(words: str, message: str) -> None:
    parameters = kube_controller_manager.command.make_context("x", words.split()).params
    with pytest.raises(CliError, match=message):
        parse_signing_flags(parameters)


def test_a_signer_gets_the_files_of_its_flags() -> None:
    words = "--cluster-signing-kubelet-client-cert-file=/dev/null --cluster-signing-kubelet-client-key-file=/dev/null"
    parameters = kube_controller_manager.command.make_context("x", words.split()).params
    assert parse_signing_flags(parameters)["cluster_signing_files"] == {KUBELET_CLIENT: ("/dev/null", "/dev/null")}
