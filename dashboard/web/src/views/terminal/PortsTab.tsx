/** How to reach the ports of a pod or service: commands, and links where something serves them outside of the cluster. */
import { catalog } from "../../app/i18n";
import { at, list, text, type KubernetesObject } from "../../app/kubernetes";
import { KubectlHint, Empty } from "../../components";
import { useLiveObjects } from "../../app/stream";
import type { DetailTabProps } from "..";
import { kubectl } from "../actions/kubectl";

const t = catalog({
  explain: ["A page cannot open a port of your machine. This command forwards it; then the link works on the machine where it runs.", "网页无法打开您机器上的端口。此命令会转发端口；之后链接可在运行该命令的机器上使用。"],
  forward: ["Forward port {port}", "转发端口 {port}"],
  open: ["Open {address}", "打开 {address}"],
  outside: ["Reachable from outside of the cluster", "可从集群外访问"],
  none: ["It has no ports", "没有端口"],
  noneNext: ["Containers name their ports in spec.containers[].ports.", "容器在 spec.containers[].ports 中声明端口。"],
});

interface Port {
  readonly port: number;
  readonly name: string;
  readonly protocol: string;
  readonly nodePort: number;
}

export function portsOf(object: KubernetesObject): Port[] {
  const raw = object.kind === "Service" || at(object, "spec", "ports") !== undefined
    ? list(at(object, "spec", "ports"))
    : list(at(object, "spec", "containers")).flatMap((container) => list(at(container, "ports")));
  return raw.map((item) => ({
    port: Number(at(item, "port") ?? at(item, "containerPort")),
    name: text(at(item, "name")),
    protocol: text(at(item, "protocol")) || "TCP",
    nodePort: Number(at(item, "nodePort") ?? 0),
  }));
}

/** A port below 1024 needs rights on the person's machine: 80 becomes 8080. */
export function localPort(port: number): number {
  return port < 1024 ? 8000 + port : port;
}

const isWeb = (port: Port): boolean => port.protocol === "TCP" && (/http|web|ui/i.test(port.name) || [80, 443, 3000, 5000, 8000, 8080, 8443, 9090].includes(port.port));

export default function PortsTab({ cluster, resource, object }: DetailTabProps) {
  const ports = portsOf(object);
  const nodes = useLiveObjects(cluster, ports.some((port) => port.nodePort) ? { path: "/api/v1/nodes", limit: 5 } : null).objects ?? [];
  const { name, namespace = "" } = object.metadata;
  const balancers = list(at(object, "status", "loadBalancer", "ingress")).map((item) => text(at(item, "hostname") ?? at(item, "ip")));
  const nodeAddress = nodes.flatMap((node) => list(at(node, "status", "addresses"))).find((item) => at(item, "type") === "InternalIP");
  if (!ports.length) return <Empty title={t("none")}>{t("noneNext")}</Empty>;
  const outside = ports.flatMap((port) => [
    ...balancers.map((host) => `${port.port === 443 ? "https" : "http"}://${host}:${port.port}`),
    ...(port.nodePort && nodeAddress ? [`http://${text(at(nodeAddress, "address"))}:${port.nodePort}`] : []),
  ]);
  return (
    <div class="stack">
      {outside.length > 0 && (
        <section class="stack"><h2>{t("outside")}</h2><ul>{outside.map((address) => <li key={address}><a href={address} target="_blank" rel="noreferrer noopener">{address}</a></li>)}</ul></section>
      )}
      <p class="muted">{t("explain")}</p>
      {ports.map((port) => {
        const local = localPort(port.port);
        const address = `${port.port === 443 || port.port === 8443 ? "https" : "http"}://127.0.0.1:${local}/`;
        return (
          <section key={`${port.port}/${port.protocol}`} class="stack">
            <h2>{t("forward", { port: port.name ? `${port.port} (${port.name})` : port.port })}</h2>
            <KubectlHint command={kubectl.portForward({ resource, namespace, name }, local, port.port)} />
            {isWeb(port) && <p><a href={address} target="_blank" rel="noreferrer noopener">{t("open", { address })}</a></p>}
          </section>
        );
      })}
    </div>
  );
}
