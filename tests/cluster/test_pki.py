"""The front proxy of a cluster: its published settings, and who may set the remote user headers."""

import http.client
import json
import ssl
from pathlib import Path
from typing import Any

from sampan.api.types.core_v1 import ConfigMap
from sampan.apiserver.authn.front_proxy import FrontProxySettings
from sampan.apiserver.config.config_reload import make_reloading_proxy_client
from sampan.apiserver.config.server_config import ServerConfig
from sampan.cluster.pki import ADMIN, PROXY_CA, PROXY_CLIENT, Pki, with_front_proxy
from sampan.testing import Cluster
from sampan.testing.keys import KEYS, KeyRing

WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REMOTE_USER_HEADERS = {"X-Remote-User": "ann", "X-Remote-Group": "readers", "X-Remote-Extra-Colour": "red"}


def whoami(cluster: Cluster, pki: Pki, name: str) -> tuple[int, Any]:
    """Send a SelfSubjectReview with a certificate of the cluster and with remote user headers."""
    context = ssl.create_default_context(cafile=cluster.ca)
    context.load_cert_chain(pki.certificate(name), pki.key(name))
    host = cluster.url.removeprefix("https://")
    connection = http.client.HTTPSConnection(host, context=context, timeout=60)
    try:
        connection.request(
            "POST", WHOAMI, body="{}", headers={"Content-Type": "application/json", **REMOTE_USER_HEADERS}
        )
        http_response = connection.getresponse()
        return http_response.status, json.loads(http_response.read()).get("status")
    finally:
        connection.close()


def test_only_the_front_proxy_may_set_remote_user_headers(tmp_path: Path) -> None:
    pki = KEYS.write(tmp_path / "pki")
    with Cluster(components=("apiserver",)) as cluster:
        code, status = whoami(cluster, pki, PROXY_CLIENT)
        assert (code, status["userInfo"]) == (
            201,
            {"username": "ann", "groups": ["readers", "system:authenticated"], "extra": {"colour": ["red"]}},
        )
        code, status = whoami(cluster, pki, ADMIN)
        assert code == 201
        assert status["userInfo"]["username"] == "kubernetes-admin"
        config_map = cluster.run(
            cluster.client.for_kind(ConfigMap).get("extension-apiserver-authentication", "kube-system")
        )
    assert config_map.data["requestheader-client-ca-file"] == pki.certificate(PROXY_CA).read_text()
    assert config_map.data["client-ca-file"] != config_map.data["requestheader-client-ca-file"]
    assert {key: value for key, value in config_map.data.items() if "ca-file" not in key} == {
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-username-headers": '["X-Remote-User"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }


def test_front_proxy_flags_override_the_cluster_pki(tmp_path: Path) -> None:
    pki, file = Pki(tmp_path), tmp_path / "own"
    own = ServerConfig(front_proxy=FrontProxySettings(ca=file))
    assert with_front_proxy(own, pki) is own
    own = ServerConfig(proxy_client=(file, file))
    assert with_front_proxy(own, pki) is own
    server_config = with_front_proxy(ServerConfig(), pki)
    assert server_config.proxy_client == (tmp_path / "front-proxy-client.crt", tmp_path / "front-proxy-client.key")


def test_renewed_front_proxy_certificate_is_reloaded_with_its_key(tmp_path: Path) -> None:
    old, new, notes = KEYS.write(tmp_path / "old"), KeyRing().write(tmp_path / "new"), list[str]()
    files = (old.certificate(PROXY_CLIENT), old.key(PROXY_CLIENT))
    reloading = make_reloading_proxy_client(files, lambda: notes.append("renewed"))
    reloading.check()
    files[0].write_bytes(new.certificate(PROXY_CLIENT).read_bytes())
    reloading.check()
    assert notes == [], "the certificate and its key do not belong together yet"
    files[1].write_bytes(new.key(PROXY_CLIENT).read_bytes())
    reloading.check()
    assert notes == ["renewed"]
