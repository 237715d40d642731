"""kubectl create with valid and invalid input."""

import base64
from pathlib import Path

from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.manifests import CONFIG_MAP, POD, yaml
from tests.e2e.kubectl.namespace_objects import NamespaceObjects


def test_from_a_file(kubectl: Kubectl, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD)
    assert kubectl("create", "-f", str(file)) == "pod/web created\n"
    assert kubectl.fails("create", "-f", str(file)) == (
        f'Error from server (AlreadyExists): error when creating "{file}": pods "web" already exists\n'
    )


def test_from_a_directory(kubectl: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CONFIG_MAP)
    (tmp_path / "b.yml").write_text(f"{CONFIG_MAP}---\n{POD}".replace("settings", "others"))
    (tmp_path / "c.txt").write_text("not looked at")
    assert kubectl("create", "-f", str(tmp_path)).splitlines() == [
        "configmap/settings created",
        "configmap/others created",
        "pod/web created",
    ]


def test_from_standard_input_as_json(kubectl: Kubectl) -> None:
    text = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}}'
    assert kubectl("create", "-f", "-", stdin=text).startswith("configmap/made-")


def test_namespace(kubectl: Kubectl, sampan_namespace: str) -> None:
    name = f"{sampan_namespace}-more"
    assert kubectl("create", "namespace", name) == f"namespace/{name} created\n"
    assert kubectl.fails("create", "namespace", name) == (
        f'Error from server (AlreadyExists): namespaces "{name}" already exists\n'
    )
    assert kubectl("delete", "namespace", name) == f'namespace "{name}" deleted\n'


def test_configmap_from_files_and_literals(kubectl: Kubectl, objects: NamespaceObjects, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    (tmp_path / "blob").write_bytes(b"\xff\x00")
    kubectl("create", "configmap", "files", f"--from-file={tmp_path}", "--from-literal=a=1")
    config_map = objects.get("configmap/files")
    assert config_map["data"] == {"a": "1", "notes.txt": "one\ntwo\n"}
    assert config_map["binaryData"] == {"blob": base64.b64encode(b"\xff\x00").decode()}


def test_run_creates_a_pod(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    assert kubectl("run", "web", "--image=nginx", "--labels=app=web") == "pod/web created\n"
    pod = objects.get("pod/web")
    assert (pod["spec"]["containers"][0]["image"], pod["metadata"]["labels"]) == ("nginx", {"app": "web"})


def test_service_gets_a_cluster_ip(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    kubectl("create", "service", "clusterip", "web", "--tcp=80:8080")
    assert objects.get("service/web")["spec"]["clusterIP"].startswith("10.96.")


def test_expose_pod_creates_a_service(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    objects.apply(POD)
    assert kubectl("expose", "pod", "web") == "service/web exposed\n"
    spec = objects.get("service/web")["spec"]
    assert spec["selector"] == {"app": "web", "tier": "front"}
    assert [port["port"] for port in spec["ports"]] == [80]


class TestDryRun:
    def test_server_dry_run_does_not_store_the_object(self, kubectl: Kubectl, objects: NamespaceObjects) -> None:
        words = ("create", "configmap", "settings", "--from-literal=a=1", "--dry-run=server")
        assert kubectl(*words) == "configmap/settings created (server dry run)\n"
        assert "uid" in kubectl.json(*words)["metadata"]
        assert "settings" not in objects.names("configmaps")

    def test_server_dry_run_validates_the_object(self, kubectl: Kubectl) -> None:
        text = POD.replace("image: nginx:1.27", "image: ''")
        error = kubectl.fails("create", "-f", "-", "--dry-run=server", stdin=text)
        assert error == 'The Pod "web" is invalid: spec.containers[0].image: Required value\n'

    def test_client_dry_run_does_not_store_the_object(self, kubectl: Kubectl, objects: NamespaceObjects) -> None:
        output = kubectl("create", "configmap", "settings", "--dry-run=client")
        assert output == "configmap/settings created (dry run)\n"
        assert "settings" not in objects.names("configmaps")


class TestErrors:
    def test_all_validation_errors_are_listed(self, kubectl: Kubectl) -> None:
        text = POD.replace("name: web", "name: Bad_Name").replace("containerPort: 80", "containerPort: 99999")
        first, *faults = kubectl.fails("create", "-f", "-", stdin=text).splitlines()
        assert first == 'The Pod "Bad_Name" is invalid: '
        assert [fault.split(": ")[0] for fault in faults] == [
            "* metadata.name",
            "* spec.containers[0].ports[0].containerPort",
        ]
        assert faults[1].endswith("Invalid value: 99999: must be between 1 and 65535, inclusive")

    def test_unknown_field_is_rejected(self, kubectl: Kubectl) -> None:
        error = kubectl.fails("create", "-f", "-", stdin=CONFIG_MAP.replace("\ndata:", "\ndada:"))
        assert 'unknown field "dada"' in error

    def test_unknown_field_with_validate_warn(self, kubectl: Kubectl) -> None:
        kubectl.require_version(1, 25)
        done = kubectl.run("create", "-f", "-", "--validate=warn", stdin=CONFIG_MAP.replace("\ndata:", "\ndada:"))
        assert (done.returncode, done.stdout) == (0, "configmap/settings created\n")
        assert done.stderr == 'Warning: unknown field "dada"\n'

    def test_unknown_field_with_validate_false(self, kubectl: Kubectl) -> None:
        text = CONFIG_MAP.replace("\ndata:", "\ndada:")
        assert kubectl("create", "-f", "-", "--validate=false", stdin=text) == "configmap/settings created\n"

    def test_unknown_kind(self, kubectl: Kubectl) -> None:
        error = kubectl.fails("create", "-f", "-", stdin=CONFIG_MAP.replace("ConfigMap", "Nonsense"))
        assert 'no matches for kind "Nonsense" in version "v1"' in error

    def test_field_of_wrong_type(self, kubectl: Kubectl) -> None:
        text = POD.replace("containerPort: 80", "containerPort: eighty")
        assert "containerPort" in kubectl.fails("create", "-f", "-", stdin=text)
        error = kubectl.fails("create", "-f", "-", "--validate=false", stdin=text)
        assert error.startswith(
            'Error from server (BadRequest): error when creating "STDIN": Pod in version "v1" cannot be handled as a '
            "Pod: json: cannot unmarshal string into Go struct field "
        )

    def test_missing_namespace(self, kubectl: Kubectl) -> None:
        error = kubectl.fails("create", "configmap", "settings", "-n", "nowhere")
        assert error.endswith('namespaces "nowhere" not found\n')

    def test_invalid_namespace_name(self, kubectl: Kubectl) -> None:
        error = kubectl.fails("create", "namespace", "Not_Good")
        assert error.startswith('The Namespace "Not_Good" is invalid: metadata.name: Invalid value: "Not_Good": ')

    def test_config_map_above_the_size_limit(self, kubectl: Kubectl) -> None:
        text = yaml("""
            apiVersion: v1
            kind: ConfigMap
            metadata: {name: big}
            data: {a: "%s"}
            """)
        error = kubectl.fails("create", "-f", "-", stdin=text % ("x" * 1_100_000))
        assert error.startswith('The ConfigMap "big" is invalid: ')
        assert "Too long: may not be more than 1048576 bytes" in error
