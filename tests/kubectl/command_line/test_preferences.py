"""Effects of a kuberc file without a server: default flags, aliases and permitted credential plugins."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sampan.cli.main import cli

V1BETA1 = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n"
V1ALPHA1 = "apiVersion: kubectl.config.k8s.io/v1alpha1\nkind: Preference\n"
CREATE = "create configmap a --from-literal=k=v --dry-run=client"


def kubectl(line: str, home: Path, **environment: str) -> Result:
    env = {"HOME": str(home), "KUBECONFIG": str(home / "kubeconfig"), **environment}
    return CliRunner().invoke(cli, ["kubectl", *line.split()], prog_name="sampan", env=env)


def run_with_preferences(text: str, line: str, home: Path) -> Result:
    (home / "kuberc").write_text(text)
    return kubectl(line, home, KUBERC=str(home / "kuberc"))


@pytest.mark.parametrize(
    ("text", "line", "output"),
    [
        (
            V1BETA1 + "defaults: [{command: create configmap, options: [{name: output, default: name}]}]",
            CREATE,
            "configmap/a\n",
        ),
        (
            V1ALPHA1 + "overrides: [{command: create configmap, flags: [{name: output, default: name}]}]",
            CREATE,
            "configmap/a\n",
        ),
        (
            V1BETA1 + "defaults: [{command: create configmap, options: [{name: output, default: name}]}]",
            f"{CREATE} -ojsonpath={{.kind}}",
            "ConfigMap",
        ),
        (
            V1BETA1 + "aliases: [{name: mk, command: create configmap, prependArgs: [a], appendArgs: [-oname], "
            "options: [{name: dry-run, default: client}]}]",
            "mk -n other",
            "configmap/a\n",
        ),
        ("kind: Other\n---\n" + V1BETA1 + "aliases: [{name: v, command: version}]", "v --client -ojson", '"v1.37.1"'),
    ],
)
def test_preferences_apply(text: str, line: str, output: str, tmp_path: Path) -> None:
    outcome = run_with_preferences(text, line, tmp_path)
    assert outcome.exit_code == 0, outcome.output
    assert output in outcome.stdout


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("aliases: [{name: a-b, command: get}]", "invalid alias name, can only include alphabetical characters"),
        ("aliases: [{name: a, command: get}, {name: a, command: get}]", "duplicate alias name a"),
        ("defaults: [{command: get, options: [{name: -o}]}]", "flag name -o should be in long form without dashes"),
        ("defaults: [{command: version, options: [{name: x}]}]", "invalid flag x for command version"),
        (
            "defaults: [{command: version, options: [{name: client, default: maybe}]}]",
            "could not apply override value maybe to flag client in command version err: "
            'invalid argument "maybe" for "--client" flag: strconv.ParseBool: parsing "maybe": invalid syntax',
        ),
        ("credentialPluginPolicy: Sometimes", 'unknown plugin policy: "Sometimes"'),
        (
            "credentialPluginPolicy: Allowlist",
            'credential plugin policy set to "Allowlist", but allowlist is unspecified',
        ),
        (
            "credentialPluginPolicy: DenyAll\ncredentialPluginAllowlist: [{command: cat}]",
            'misconfigured credential plugin allowlist: plugin policy is "DenyAll" but allowlist is non-nil',
        ),
        (
            "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: /bin/../cat}]",
            'non-normalized file path: "/bin/../cat" vs "/cat"',
        ),
    ],
)
def test_invalid_preferences_fail_the_command(text: str, reason: str, tmp_path: Path) -> None:
    outcome = run_with_preferences(V1BETA1 + text, "version --output=name", tmp_path)
    assert (outcome.exit_code, outcome.stderr) == (1, f"error occurred while applying preferences {reason}\n")


def test_invalid_default_kuberc_is_only_a_warning(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    path = tmp_path / ".kube" / "kuberc"
    path.write_text(V1BETA1 + "defaults: 5")
    outcome = kubectl("version --client", tmp_path)
    reason = f"no valid preferences found in {path}, use --v=5 to see details"
    assert (outcome.exit_code, outcome.stderr) == (0, f"kuberc: no preferences loaded from {path}: {reason}")
    outcome = kubectl(f"version --client --kuberc={path}", tmp_path)
    assert outcome.stderr == f"error occurred while applying preferences kuberc error kuberc: {reason}\n"


def test_unknown_fields_are_reported(tmp_path: Path) -> None:
    outcome = run_with_preferences(V1BETA1 + "color: red\ndefaults: [{command: x, z: 1}]", "version --client", tmp_path)
    assert 'strict decoding error: unknown field "color", unknown field "defaults[0].z"' in outcome.stderr
    assert 'Warning: command "x" not found to set kuberc override' in outcome.stderr
    assert outcome.exit_code == 0


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("DenyAll", 'plugin "cat" not allowed: policy set to "DenyAll"'),
        (
            "Allowlist\ncredentialPluginAllowlist: [{command: tac}]",
            "is not permitted by the credential plugin allowlist",
        ),
        ("Allowlist\ncredentialPluginAllowlist: [{name: cat}]", "exec plugin is configured to use API version"),
        ("AllowAll", "exec plugin is configured to use API version"),
    ],
)
def test_policy_for_credential_plugins(policy: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "token.json").write_text("{}")
    (tmp_path / "kubeconfig").write_text(f"""
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:1"}}}}]
users:
- name: u
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: cat
      args: ["{tmp_path}/token.json"]
      interactiveMode: Never
""")
    outcome = run_with_preferences(V1BETA1 + f"credentialPluginPolicy: {policy}\n", "get --raw=/version", tmp_path)
    assert outcome.exit_code == 1
    assert outcome.stderr.startswith("Unable to connect to the server: getting credentials: ")
    assert reason in outcome.stderr
