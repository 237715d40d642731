/** A terminal in a container: a shell by exec, or a debug container that is added to the pod. */
import { useEffect, useRef, useState } from "preact/hooks";
import { access } from "../../app/access";
import { asApiError, cluster, type ApiError } from "../../app/http";
import { catalog } from "../../app/i18n";
import type { KubernetesObject } from "../../app/kubernetes";
import { setQuery } from "../../app/router";
import { ActionButton, Button, Empty, ErrorBox, Field, KubectlHint, Loading, Select, Status, type Level } from "../../components";
import type { DetailTabProps } from "..";
import { kubectl } from "../actions/kubectl";
import { containersOf, isRunning, usePods } from "../pods";
import { attachPath, execPath, type ExitStatus, SHELL } from "./channels";
import { ExecConnection } from "./exec";
import type { TerminalHandle } from "./xterm";
import "./terminal.css";

const t = catalog({
  pod: ["Pod", "Pod"],
  container: ["Container", "容器"],
  command: ["Command", "命令"],
  connect: ["Connect", "连接"],
  disconnect: ["Disconnect", "断开"],
  label: ["Terminal in {container}", "{container} 的终端"],
  connecting: ["connecting", "连接中"],
  open: ["connected", "已连接"],
  ended: ["ended", "已结束"],
  exit: ["exited with code {code}", "退出码 {code}"],
  keys: ["Ctrl+Shift+Escape leaves the terminal.", "按 Ctrl+Shift+Escape 离开终端。"],
  none: ["No container runs", "没有运行中的容器"],
  noneNext: ["A terminal needs a running container.", "终端需要运行中的容器。"],
  debug: ["Debug container", "调试容器"],
  debugHelp: ["Adds a container with tools to the pod, which shares the processes of the chosen container. It stays until the pod is gone.", "向 Pod 添加带工具的容器，并共享所选容器的进程。它会保留到 Pod 消失。"],
  image: ["Image", "镜像"],
  start: ["Start debug container", "启动调试容器"],
  waiting: ["Waiting for the debug container…", "等待调试容器…"],
});

type Phase = "idle" | "connecting" | "open" | "ended";
const LEVELS: Readonly<Record<Phase, Level>> = { idle: "neutral", connecting: "progress", open: "good", ended: "neutral" };

export default function TerminalTab({ cluster: clusterName, resource, object, query }: DetailTabProps) {
  const pods = usePods(clusterName, resource, object);
  const [command, setCommand] = useState(query["command"] ?? "");
  const [session, setSession] = useState<{ path: string; id: number } | null>(null);
  const running = (pods.objects ?? []).filter((item) => containersOf(item).some(({ name }) => isRunning(item, name)));
  const pod = running.find((item) => item.metadata.name === query["pod"]) ?? running[0];
  const containers = pod ? containersOf(pod).filter(({ name }) => isRunning(pod, name)).map(({ name }) => name) : [];
  const container = containers.find((name) => name === query["container"]) ?? containers[0] ?? "";
  const namespace = object.metadata.namespace ?? "";
  const may = access(clusterName, { verb: "create", group: "", resource: "pods", subresource: "exec", namespace }).value;

  if (pods.error) return <ErrorBox error={pods.error} />;
  if (!pods.objects) return <Loading />;
  if (!pod) return <Empty title={t("none")}>{t("noneNext")}</Empty>;
  const target = { namespace, pod: pod.metadata.name, container };
  const words = command.trim() ? command.trim().split(/\s+/) : SHELL;
  const connect = () => setSession({ path: execPath(target, words, { stdin: true, tty: true }), id: Date.now() });

  return (
    <div class="stack terminal-tab">
      <form class="toolbar" onSubmit={(event) => { event.preventDefault(); connect(); }}>
        {running.length > 1 && <Select label={t("pod")} hideLabel value={pod.metadata.name} options={running.map((item) => [item.metadata.name, item.metadata.name])} onChange={(name) => setQuery({ pod: name })} />}
        <Select label={t("container")} hideLabel value={container} options={containers.map((name) => [name, name])} onChange={(name) => setQuery({ container: name })} />
        <input class="terminal-command" aria-label={t("command")} placeholder="sh" value={command} onInput={(event) => setCommand(event.currentTarget.value)} onChange={(event) => setQuery({ command: event.currentTarget.value })} spellcheck={false} />
        <ActionButton access={may} look="primary" type="submit">{t("connect")}</ActionButton>
        {session && <Button onClick={() => setSession(null)}>{t("disconnect")}</Button>}
      </form>
      {session && <TerminalPane key={session.id} cluster={clusterName} path={session.path} label={t("label", { container })} />}
      <KubectlHint command={kubectl.exec(namespace, pod.metadata.name, container, command.trim() ? words : ["sh"])} />
      <DebugContainer cluster={clusterName} pod={pod} container={container} onReady={(name) => setSession({ path: attachPath({ ...target, container: name }), id: Date.now() })} />
    </div>
  );
}

function TerminalPane({ cluster: clusterName, path, label }: { cluster: string; path: string; label: string }) {
  const host = useRef<HTMLDivElement>(null);
  const [phase, setPhase] = useState<Phase>("connecting");
  const [exit, setExit] = useState<ExitStatus | null>(null);

  useEffect(() => {
    let isCurrent = true;
    let terminal: TerminalHandle | null = null;
    let connection: ExecConnection | null = null;
    void import("./xterm").then(({ createTerminal }) => {
      if (!isCurrent || !host.current) return;
      const screen = createTerminal(host.current, {
        label, onData: (data) => connection?.write(data), onResize: (columns, rows) => connection?.resize(columns, rows),
      });
      terminal = screen;
      connection = new ExecConnection(clusterName, path, {
        onOpen: () => {
          setPhase("open");
          connection?.resize(screen.columns, screen.rows);
          screen.focus();
        },
        onOutput: (data) => screen.write(data),
        onEnd: (status) => {
          setPhase("ended");
          setExit(status);
          if (status.message) screen.write(`\r\n${status.message}\r\n`);
        },
      });
    });
    return () => {
      isCurrent = false;
      connection?.close();
      terminal?.dispose();
    };
  }, []);

  // The terminal takes every key, so one combination must lead out of it.
  const leave = (event: KeyboardEvent) => {
    if (!(event.key === "Escape" && event.ctrlKey && event.shiftKey)) return;
    event.preventDefault();
    event.stopPropagation();
    document.querySelector<HTMLElement>(".terminal-tab .toolbar button")?.focus();
  };
  const state = phase === "ended" && exit?.exitCode !== null && exit ? t("exit", { code: exit.exitCode ?? 0 }) : phase === "idle" ? "" : t(phase);
  return (
    <div class="stack">
      <div class="row"><Status text={state} level={exit && !exit.ok ? "warning" : LEVELS[phase]} /><span class="muted">{t("keys")}</span></div>
      <div ref={host} class="terminal-pane" role="group" aria-label={label} onKeyDownCapture={leave} />
    </div>
  );
}

function DebugContainer({ cluster: clusterName, pod, container, onReady }: { cluster: string; pod: KubernetesObject; container: string; onReady: (name: string) => void }) {
  const [image, setImage] = useState("busybox");
  const [pending, setPending] = useState("");
  const [error, setError] = useState<ApiError | null>(null);
  const { namespace = "", name } = pod.metadata;
  const may = access(clusterName, { verb: "patch", group: "", resource: "pods", subresource: "ephemeralcontainers", namespace }).value;

  useEffect(() => {
    if (pending && isRunning(pod, pending)) {
      setPending("");
      onReady(pending);
    }
  }, [pod, pending]);

  const start = async () => {
    setError(null);
    const debugger_ = `debugger-${Date.now().toString(36).slice(-5)}`;
    const ephemeral = { name: debugger_, image, stdin: true, tty: true, targetContainerName: container, terminationMessagePolicy: "File" };
    try {
      await cluster(clusterName).k8s(`/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/ephemeralcontainers`, {
        method: "PATCH", headers: { "Content-Type": "application/strategic-merge-patch+json" }, body: { spec: { ephemeralContainers: [ephemeral] } },
      });
      setPending(debugger_);
    } catch (reason) {
      setError(asApiError(reason));
    }
  };
  return (
    <details>
      <summary>{t("debug")}</summary>
      <div class="stack terminal-debug">
        <p class="muted">{t("debugHelp")}</p>
        <Field label={t("image")} value={image} onInput={setImage} />
        <div class="row">
          <ActionButton access={may} disabled={!image || pending !== ""} onClick={() => void start()}>{t("start")}</ActionButton>
          {pending && <span class="muted" role="status">{t("waiting")}</span>}
        </div>
        {error && <ErrorBox error={error} />}
        <KubectlHint command={kubectl.debug(namespace, name, image, container)} />
      </div>
    </details>
  );
}
