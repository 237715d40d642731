/** A live map of services, endpoints, policies and pods of a namespace, or of what is connected with one object. */
import { useMemo } from "preact/hooks";
import { catalog } from "../../app/i18n";
import { namespace as currentNamespace } from "../../app/namespace";
import { href, setQuery } from "../../app/router";
import { useLiveObjects } from "../../app/stream";
import { Button, Empty, ErrorBox, Loading, Select } from "../../components";
import type { ViewProps } from "..";
import { around, buildGraph, type GraphNode, LAYERS, type NodeKind } from "./graph";
import { layout } from "./layout";
import { useMapPods } from "./pods";
import "./map.css";

const t = catalog({
  title: ["Map", "地图"],
  namespace: ["Namespace", "Namespace"],
  empty: ["Nothing to draw in {namespace}", "{namespace} 中没有可绘制的对象"],
  emptyNext: ["The map shows ingresses, services, their endpoints, pods, and the policies that isolate them.", "地图显示 Ingress、Service、端点、Pod 以及隔离它们的策略。"],
  omitted: ["{n} objects are left out: choose one to see what is connected with it.", "省略了 {n} 个对象：选择一个查看其关联。"],
  all: ["Show the whole namespace", "显示整个 namespace"],
  focus: ["Only what is connected with {name}", "仅显示与 {name} 相关的内容"],
  connected: ["{kind} {name}, {detail}", "{kind} {name}，{detail}"],
  legend: ["Choose an object to see what is connected with it; choose it again to open it. A dashed line leads to an endpoint that is not ready.", "选择对象查看其关联，再次选择可打开它。虚线表示未就绪的端点。"],
});

const WIDTH = 212;
const HEIGHT = 44;
const COLUMN = 254;
const ROW = 58;
const ROUTES: Readonly<Record<NodeKind, string>> = {
  Ingress: "networking.k8s.io~v1~ingresses", Service: "~v1~services", EndpointSlice: "discovery.k8s.io~v1~endpointslices", Pod: "~v1~pods", NetworkPolicy: "networking.k8s.io~v1~networkpolicies",
};

export default function MapView({ cluster, query }: ViewProps) {
  const namespace = query["namespace"] ?? (currentNamespace.value || "default");
  const focus = query["focus"] ?? "";
  const place = `/namespaces/${encodeURIComponent(namespace)}`;
  const pods = useMapPods(cluster, `/api/v1${place}/pods`);
  const services = useLiveObjects(cluster, { path: `/api/v1${place}/services`, limit: 500 });
  const slices = useLiveObjects(cluster, { path: `/apis/discovery.k8s.io/v1${place}/endpointslices`, limit: 500 });
  const ingresses = useLiveObjects(cluster, { path: `/apis/networking.k8s.io/v1${place}/ingresses`, limit: 200 });
  const policies = useLiveObjects(cluster, { path: `/apis/networking.k8s.io/v1${place}/networkpolicies`, limit: 200 });
  const namespaces = useLiveObjects(cluster, { path: "/api/v1/namespaces", limit: 500 });
  const whole = useMemo(
    () => buildGraph({ pods: pods.pods ?? [], services: services.objects ?? [], slices: slices.objects ?? [], ingresses: ingresses.objects ?? [], policies: policies.objects ?? [] }),
    [pods.pods, services.objects, slices.objects, ingresses.objects, policies.objects]);
  const graph = useMemo(() => (focus ? around(whole, focus) : whole), [whole, focus]);
  const drawn = useMemo(() => layout(LAYERS.map((kind) => graph.nodes.filter((node) => node.kind === kind).map((node) => node.id)), graph.edges, { columnWidth: COLUMN, rowHeight: ROW }), [graph]);
  const isLoading = !pods.pods && !pods.error;
  const names = new Set([namespace, ...(namespaces.objects ?? []).map((item) => item.metadata.name)]);
  const focused = graph.nodes.find((node) => node.id === focus);

  return (
    <div class="page">
      <div class="page-header">
        <h1>{t("title")}</h1>
        <Select label={t("namespace")} hideLabel value={namespace} options={[...names].map((name) => [name, name])} onChange={(name) => setQuery({ namespace: name, focus: undefined })} />
      </div>
      {pods.error && <ErrorBox error={pods.error} />}
      {focused && <div class="row"><span>{t("focus", { name: `${focused.kind} ${focused.name}` })}</span><Button onClick={() => setQuery({ focus: undefined })}>{t("all")}</Button></div>}
      {graph.omitted > 0 && <p class="muted">{t("omitted", { n: graph.omitted })}</p>}
      {isLoading && <Loading />}
      {!isLoading && graph.nodes.length === 0 && <Empty title={t("empty", { namespace })}>{t("emptyNext")}</Empty>}
      {graph.nodes.length > 0 && (
        <div class="map-frame" tabIndex={0} role="group" aria-label={t("title")}>
          <svg width={drawn.width - COLUMN + WIDTH + 20} height={drawn.height + 40} role="group" aria-label={t("title")}>
            {drawn.columns.map((layer, column) => <text key={layer} class="map-column" x={column * COLUMN + 10} y={18}>{LAYERS[layer]}</text>)}
            <g transform="translate(10 30)">
              {graph.edges.map((edge) => {
                const from = drawn.places.get(edge.from);
                const to = drawn.places.get(edge.to);
                if (!from || !to) return null;
                const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
                const bend = (x2 - x1) / 2;
                return <path key={`${edge.from}>${edge.to}`} class={`map-edge ${edge.isBroken ? "broken" : ""}`} d={`M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`}>{edge.label && <title>{edge.label}</title>}</path>;
              })}
              {graph.nodes.map((node) => <MapNode key={node.id} cluster={cluster} node={node} place={drawn.places.get(node.id)} isFocused={node.id === focus} />)}
            </g>
          </svg>
        </div>
      )}
      <p class="muted">{t("legend")}</p>
    </div>
  );
}

function MapNode({ cluster, node, place, isFocused }: { cluster: string; node: GraphNode; place: { x: number; y: number } | undefined; isFocused: boolean }) {
  if (!place) return null;
  const isGroup = node.count > 1;
  const address = isGroup
    ? href(["c", cluster, ROUTES.Pod], { namespace: node.namespace, q: node.name.replace(/-\*$/, "") })
    : href(["c", cluster, ROUTES[node.kind], node.namespace, node.name]);
  return (
    <g transform={`translate(${place.x} ${place.y})`} class={`map-node ${node.level} ${isFocused ? "focused" : ""}`}>
      <a href={address} onClick={(event) => {
        if (!event.shiftKey && !isGroup && !isFocused) {
          event.preventDefault();
          setQuery({ namespace: node.namespace, focus: node.id });
        }
      }}>
        <title>{t("connected", { kind: node.kind, name: node.name, detail: node.detail })}</title>
        {isGroup && <rect class="map-shadow" x={4} y={4} width={WIDTH} height={HEIGHT} rx={6} />}
        <rect width={WIDTH} height={HEIGHT} rx={6} />
        <rect class="map-level" width={5} height={HEIGHT} rx={2} />
        <text x={14} y={18} class="map-name">{cut(node.name, isGroup ? 16 : 22)}{isGroup ? ` ×${node.count}` : ""}</text>
        <text x={14} y={35} class="map-detail">{cut(node.detail, 26)}</text>
      </a>
    </g>
  );
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most / 2)}…${text.slice(-(most / 2 - 1))}` : text;
}
