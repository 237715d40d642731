/** A guided tour: creates a deployment, breaks a node, shows what heals it, and cleans up after itself. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { access } from "../../app/access";
import { asApiError, cluster, type ApiError } from "../../app/http";
import { catalog } from "../../app/i18n";
import type { KubernetesObject, ObjectList } from "../../app/kubernetes";
import { href } from "../../app/router";
import { useLiveObjects } from "../../app/stream";
import { ActionButton, Button, ErrorBox, Icon, KubectlHint, Loading, Status } from "../../components";
import type { ViewProps } from "..";
import { sendPatch } from "../actions/PatchDialog";
import { useLoad } from "../load";
import {
  type BreakChoice, chooseNode, DEPLOYMENT, type Happening, isBroken, isHealed, isReady, manifests, nodeOf, PodObserver, readyPods, replicasFor, type Step, STEPS, TAINT_KEY, TOUR_LABEL, usableNodes, withTourTaint,
} from "./tour";
import "./tour.css";

const t = catalog({
  title: ["Guided tour", "导览"],
  lead: ["How Kubernetes keeps a promise: you say how many pods should run, and controllers make it true again and again.", "Kubernetes 如何信守承诺：您说明应运行多少 Pod，控制器不断使之成真。"],
  start: ["Before we start", "开始之前"],
  create: ["Create", "创建"],
  look: ["Look", "观察"],
  break: ["Break a node", "弄坏一个节点"],
  heal: ["Watch it heal", "观察自愈"],
  repair: ["Repair", "修复"],
  done: ["Done", "完成"],
  startText: ["The tour makes a namespace of its own with a Deployment of {n} pods and a Service. At the end it deletes all of it. {nodes} nodes are ready.", "导览会新建一个独立的 namespace，包含 {n} 个 Pod 的 Deployment 和一个 Service，结束时全部删除。现有 {nodes} 个就绪节点。"],
  startButton: ["Start the tour", "开始导览"],
  createText: ["The Deployment controller made a ReplicaSet, the ReplicaSet controller the pods, the scheduler chose a node for each, and the kubelets start them. {ready} of {n} are ready.", "Deployment 控制器创建了 ReplicaSet，ReplicaSet 控制器创建 Pod，调度器为每个 Pod 选择节点，kubelet 启动它们。{n} 个中有 {ready} 个就绪。"],
  lookText: ["All pods are ready. Look at how one of them was born, and why it is on its node.", "所有 Pod 已就绪。看看其中一个如何诞生，以及为何位于该节点。"],
  birth: ["Birth of {pod}", "{pod} 的诞生"],
  decision: ["Why {pod} is on {node}", "{pod} 为何在 {node}"],
  mapLink: ["Map of the namespace", "namespace 地图"],
  next: ["Continue", "继续"],
  breakText: ["We give {node} a taint that no pod tolerates. To its pods that is the same as a node that fails: they must go.", "我们给 {node} 加上没有 Pod 容忍的污点。对其上的 Pod 而言，这等同于节点故障：必须离开。"],
  bystanders: ["{n} other {n|pod|pods} on this node would be evicted too: {names}", "该节点上的另外 {n} 个 Pod 也会被驱逐：{names}"],
  breakButton: ["Break {node}", "弄坏 {node}"],
  oneNode: ["There is only one node, so we delete a pod instead of breaking a node. The same loop heals it.", "只有一个节点，因此改为删除一个 Pod，由同样的循环修复。"],
  deletePod: ["Delete {pod}", "删除 {pod}"],
  healText: ["The taint eviction controller deletes the pods on {node}. The ReplicaSet controller counts too few and makes new ones, the scheduler places them elsewhere, and the EndpointSlice follows, so that the Service only knows ready pods.", "污点驱逐控制器删除 {node} 上的 Pod。ReplicaSet 控制器发现数量不足并新建，调度器将其放到别处，EndpointSlice 随之更新，Service 只认得就绪的 Pod。"],
  healPodText: ["The ReplicaSet controller counts one pod too few and makes another.", "ReplicaSet 控制器发现少了一个 Pod，于是新建一个。"],
  healed: ["Healed in {time} s: {n} pods are ready again, and nobody had to do anything.", "{time} 秒内自愈：{n} 个 Pod 再次就绪，无需任何人干预。"],
  repairText: ["The taint is removed. The pods do not move back: Kubernetes moves a pod only when it must.", "污点已移除。Pod 不会移回：Kubernetes 只在必要时移动 Pod。"],
  repairButton: ["Repair {node}", "修复 {node}"],
  finish: ["Clean up and finish", "清理并结束"],
  cleaning: ["Deleting namespace {namespace}…", "正在删除 namespace {namespace}…"],
  doneText: ["Everything the tour made is gone. You have seen the loop that all of Kubernetes is made of: compare what should be with what is, and act.", "导览创建的一切已删除。您看到了构成整个 Kubernetes 的循环：比较期望与现实，然后行动。"],
  again: ["Once more", "再来一次"],
  stop: ["Stop and clean up", "停止并清理"],
  left: ["An earlier tour left {names} behind.", "之前的导览遗留了 {names}。"],
  cleanUp: ["Clean up", "清理"],
  noNodes: ["No node is ready: the tour needs at least one.", "没有就绪的节点：导览至少需要一个。"],
  log: ["What happens", "发生了什么"],
  created: ["{pod} created", "{pod} 已创建"],
  bound: ["{pod} bound to {node}", "{pod} 已绑定到 {node}"],
  ready: ["{pod} ready on {node}", "{pod} 在 {node} 上就绪"],
  deleting: ["{pod} on {node} is being deleted", "{node} 上的 {pod} 正在删除"],
  gone: ["{pod} gone", "{pod} 已消失"],
  broken: ["broken", "已损坏"],
  fine: ["Ready", "就绪"],
  podsOf: ["{n} {n|pod|pods}", "{n} 个 Pod"],
  noNode: ["No node yet", "尚无节点"],
  steps: ["Steps of the tour", "导览步骤"],
});

const NODE_PATH = (node: string): string => `/api/v1/nodes/${encodeURIComponent(node)}`;

/** Writes the taints of a node from those that it has; a node that changed meanwhile is read again. */
async function changeTaints(clusterName: string, node: string, isTainted: boolean): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    const live = await cluster(clusterName).k8s<KubernetesObject>(NODE_PATH(node));
    const body = { metadata: { resourceVersion: live.metadata.resourceVersion }, spec: { taints: withTourTaint(live, isTainted) } };
    try {
      await sendPatch(clusterName, NODE_PATH(node), { mediaType: "application/merge-patch+json", body }, false);
      return;
    } catch (reason) {
      if (asApiError(reason).code !== 409 || attempt === 5) throw reason;
    }
  }
}

/** Removes everything that tours have left: taints first, so that other pods can use the nodes. */
async function cleanUp(clusterName: string, namespaces: readonly string[]): Promise<void> {
  const client = cluster(clusterName);
  const nodes = (await client.k8s<ObjectList>("/api/v1/nodes")).items ?? [];
  await Promise.all(nodes.filter(isBroken).map((node) => changeTaints(clusterName, node.metadata.name, false)));
  await Promise.all(namespaces.map((name) => client.k8s(`/api/v1/namespaces/${encodeURIComponent(name)}`, { method: "DELETE" }).catch((reason: unknown) => {
    if (asApiError(reason).code !== 404) throw reason;
  })));
}

export default function TourView({ cluster: clusterName }: ViewProps) {
  const [step, setStep] = useState<Step>("start");
  const [namespace, setNamespace] = useState("");
  const [broken, setBroken] = useState("");
  const [replicas, setReplicas] = useState(0);
  const [times, setTimes] = useState<{ start: number; end: number | null }>({ start: 0, end: null });
  const [happenings, setHappenings] = useState<readonly Happening[]>([]);
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [choice, setChoice] = useState<BreakChoice | null>(null);
  const observer = useRef(new PodObserver());
  const victim = useRef("");
  const active = useRef({ namespace: "", cluster: clusterName });
  active.current = { namespace: step === "done" ? "" : namespace, cluster: clusterName };

  const nodes = useLiveObjects(clusterName, { path: "/api/v1/nodes", limit: 500 });
  const pods = useLiveObjects(clusterName, namespace ? { path: `/api/v1/namespaces/${namespace}/pods` } : null);
  const left = useLoad(async () => (await cluster(clusterName).k8s<ObjectList>(`/api/v1/namespaces?${new URLSearchParams({ labelSelector: TOUR_LABEL })}`)).items ?? [], [clusterName, step]);
  const mayCreate = access(clusterName, { verb: "create", group: "", resource: "namespaces" }).value;
  const mayBreak = access(clusterName, { verb: "patch", group: "", resource: "nodes" }).value;

  // Who leaves the page in the middle of the tour leaves nothing behind.
  useEffect(() => () => {
    const { namespace: own, cluster: name } = active.current;
    if (own) void cleanUp(name, [own]);
  }, []);
  const members = useMemo(() => (namespace ? (pods.objects ?? []) : []), [pods.objects, namespace]);
  useEffect(() => {
    if (!namespace || !pods.objects) return;
    const news = observer.current.observe(pods.objects, Date.now());
    if (news.length) setHappenings((before) => [...news.toReversed(), ...before].slice(0, 60));
    if (step === "create" && replicas > 0 && readyPods(pods.objects).length >= replicas) setStep("look");
    const isVictimThere = pods.objects.some((item) => item.metadata.uid === victim.current);
    if (step === "heal" && times.end === null && !isVictimThere && isHealed(pods.objects, replicas, broken)) setTimes({ ...times, end: Date.now() });
  }, [pods.objects, step, times.start]);

  const act = async (work: () => Promise<void>) => {
    setBusy(true);
    setError(null);
    try {
      await work();
    } catch (reason) {
      setError(asApiError(reason));
    } finally {
      setBusy(false);
    }
  };
  const usable = usableNodes(nodes.objects ?? []);
  const begin = () => act(async () => {
    const name = `sampan-tour-${Date.now().toString(36)}`;
    observer.current = new PodObserver();
    setHappenings([]);
    setTimes({ start: 0, end: null });
    setReplicas(replicasFor(nodes.objects ?? []));
    setBroken("");
    const client = cluster(clusterName);
    const [own, deployment, service] = manifests(name, nodes.objects ?? []);
    await client.k8s("/api/v1/namespaces", { method: "POST", body: own });
    setNamespace(name);
    setStep("create");
    await client.k8s(`/apis/apps/v1/namespaces/${name}/deployments`, { method: "POST", body: deployment });
    await client.k8s(`/api/v1/namespaces/${name}/services`, { method: "POST", body: service });
  });
  const prepareBreak = () => act(async () => {
    const all = (await cluster(clusterName).k8s<ObjectList>("/api/v1/pods?limit=2000")).items ?? [];
    setChoice(chooseNode(nodes.objects ?? [], members, all));
    setStep("break");
  });
  const breakNode = () => act(async () => {
    const start = Date.now();
    const first = members[0];
    victim.current = "";
    if (choice) {
      setBroken(choice.node);
      await changeTaints(clusterName, choice.node, true);
    } else if (first) {
      victim.current = first.metadata.uid ?? "";
      await cluster(clusterName).k8s(`/api/v1/namespaces/${namespace}/pods/${first.metadata.name}`, { method: "DELETE" });
    }
    setTimes({ start, end: null });
    setStep("heal");
  });
  const repair = () => act(async () => {
    if (broken) await changeTaints(clusterName, broken, false);
    setStep("repair");
  });
  const finish = () => act(async () => {
    await cleanUp(clusterName, [namespace]);
    for (let attempt = 0; attempt < 120; attempt += 1) {
      const gone = await cluster(clusterName).k8s(`/api/v1/namespaces/${namespace}`).then(() => false, (reason: unknown) => asApiError(reason).code === 404);
      if (gone) break;
      await new Promise((resolve) => window.setTimeout(resolve, 500));
    }
    setStep("done");
    setNamespace("");
  });

  if (nodes.error && !nodes.objects) return <div class="page"><h1>{t("title")}</h1><ErrorBox error={nodes.error} /></div>;
  if (!nodes.objects) return <div class="page"><h1>{t("title")}</h1><Loading /></div>;
  const others = (left.value ?? []).map((item) => item.metadata.name).filter((name) => name !== namespace);
  const pod = members.find(isReady);
  return (
    <div class="page tour">
      <h1>{t("title")}</h1>
      <p>{t("lead")}</p>
      <ol class="tour-steps" aria-label={t("steps")}>
        {STEPS.map((name, index) => <li key={name} class={index < STEPS.indexOf(step) ? "past" : ""} aria-current={name === step ? "step" : undefined}>{index < STEPS.indexOf(step) && <Icon name="check" size={12} />}{t(name)}</li>)}
      </ol>
      {error && <ErrorBox error={error} />}
      <section class="tour-card" aria-live="polite">
        <h2>{t(step)}</h2>
        {step === "start" && (
          <>
            {others.length > 0 && <div class="message warning"><Icon name="warning" /><div><p>{t("left", { names: others.join(", ") })}</p><Button disabled={isBusy} onClick={() => void act(async () => { await cleanUp(clusterName, others); left.reload(); })}>{t("cleanUp")}</Button></div></div>}
            {usable.length === 0 ? <p>{t("noNodes")}</p> : <p>{t("startText", { n: replicasFor(nodes.objects), nodes: usable.length })}</p>}
            <ActionButton access={mayCreate} look="primary" disabled={isBusy || usable.length === 0} onClick={() => void begin()}>{t("startButton")}</ActionButton>
            <KubectlHint command={`kubectl create deployment ${DEPLOYMENT} --image=IMAGE --replicas=${replicasFor(nodes.objects)}`} />
          </>
        )}
        {step === "create" && <p>{t("createText", { ready: readyPods(members).length, n: replicas })}</p>}
        {step === "look" && (
          <>
            <p>{t("lookText")}</p>
            {pod && (
              <ul class="tour-links">
                <li><a href={href(["c", clusterName, "~v1~pods", namespace, pod.metadata.name, "trace"])} target="_blank">{t("birth", { pod: pod.metadata.name })}</a></li>
                <li><a href={href(["c", clusterName, "~v1~pods", namespace, pod.metadata.name, "schedule"])} target="_blank">{t("decision", { pod: pod.metadata.name, node: nodeOf(pod) })}</a></li>
                <li><a href={href(["c", clusterName, "map"], { namespace })} target="_blank">{t("mapLink")}</a></li>
              </ul>
            )}
            <Button look="primary" disabled={isBusy} onClick={() => void prepareBreak()}>{t("next")}</Button>
          </>
        )}
        {step === "break" && choice && (
          <>
            <p>{t("breakText", { node: choice.node })}</p>
            {choice.bystanders.length > 0 && <div class="message warning"><Icon name="warning" /><div>{t("bystanders", { n: choice.bystanders.length, names: choice.bystanders.slice(0, 10).join(", ") })}</div></div>}
            <ActionButton access={mayBreak} look="danger" disabled={isBusy} onClick={() => void breakNode()}>{t("breakButton", { node: choice.node })}</ActionButton>
            <KubectlHint command={`kubectl taint node ${choice.node} ${TAINT_KEY}=broken:NoExecute`} />
          </>
        )}
        {step === "break" && !choice && (
          <>
            <p>{t("oneNode")}</p>
            <Button look="danger" disabled={isBusy || members.length === 0} onClick={() => void breakNode()}>{t("deletePod", { pod: members[0]?.metadata.name ?? "" })}</Button>
            <KubectlHint command={`kubectl delete pod -n ${namespace} ${members[0]?.metadata.name ?? ""}`} />
          </>
        )}
        {step === "heal" && (
          <>
            <p>{broken ? t("healText", { node: broken }) : t("healPodText")}</p>
            {times.end !== null && (
              <>
                <p class="tour-healed"><Icon name="check" /> {t("healed", { time: ((times.end - times.start) / 1000).toFixed(1), n: replicas })}</p>
                <Button look="primary" disabled={isBusy} onClick={() => void repair()}>{broken ? t("repairButton", { node: broken }) : t("next")}</Button>
                {broken && <KubectlHint command={`kubectl taint node ${broken} ${TAINT_KEY}:NoExecute-`} />}
              </>
            )}
          </>
        )}
        {step === "repair" && (
          <>
            {broken && <p>{t("repairText")}</p>}
            {isBusy && <p class="muted">{t("cleaning", { namespace })}</p>}
            <Button look="primary" disabled={isBusy} onClick={() => void finish()}>{t("finish")}</Button>
            <KubectlHint command={`kubectl delete namespace ${namespace}`} />
          </>
        )}
        {step === "done" && <><p>{t("doneText")}</p><Button onClick={() => setStep("start")}>{t("again")}</Button></>}
        {namespace && step !== "repair" && step !== "done" && <Button look="quiet" disabled={isBusy} onClick={() => void finish()}>{t("stop")}</Button>}
      </section>
      {namespace && <Stage nodes={nodes.objects} pods={members} broken={broken} />}
      {happenings.length > 0 && (
        <section class="stack" aria-labelledby="tour-log">
          <h2 id="tour-log">{t("log")}</h2>
          <ol class="tour-log">{happenings.map((item, index) => <li key={happenings.length - index} class={item.what}><time>{new Date(item.time).toLocaleTimeString(undefined, { hour12: false })}</time> {t(item.what, { pod: item.pod, node: item.node || "–" })}</li>)}</ol>
        </section>
      )}
    </div>
  );
}

const MOST_NODES = 24;

function Stage({ nodes, pods, broken }: { nodes: readonly KubernetesObject[]; pods: readonly KubernetesObject[]; broken: string }) {
  const homeless = pods.filter((pod) => !nodeOf(pod));
  const used = nodes.filter((node) => node.metadata.name === broken || pods.some((pod) => nodeOf(pod) === node.metadata.name));
  const shown = (nodes.length <= MOST_NODES ? nodes : used).slice(0, MOST_NODES);
  return (
    <div class="tour-stage">
      {homeless.length > 0 && <StageNode title={t("noNode")} pods={homeless} isBroken={false} />}
      {shown.map((node) => <StageNode key={node.metadata.name} title={node.metadata.name} pods={pods.filter((pod) => nodeOf(pod) === node.metadata.name)} isBroken={isBroken(node)} status />)}
    </div>
  );
}

function StageNode({ title, pods, isBroken: broken, status }: { title: string; pods: readonly KubernetesObject[]; isBroken: boolean; status?: boolean }) {
  const phase = (pod: KubernetesObject): string => (pod.metadata.deletionTimestamp ? "deleting" : isReady(pod) ? "ready" : "starting");
  return (
    <section class={`tour-node ${broken ? "broken" : ""}`} aria-label={title}>
      <div class="row"><h3>{title}</h3>{status && <Status text={broken ? t("broken") : t("fine")} level={broken ? "bad" : "good"} />}</div>
      <p class="muted">{t("podsOf", { n: pods.length })}</p>
      <ul class="tour-pods">{pods.map((pod) => <li key={pod.metadata.uid} class={`tour-pod ${phase(pod)}`}>{pod.metadata.name.slice(-5)}</li>)}</ul>
    </section>
  );
}
