/** Goes back to an earlier revision of a workload, after a look at what differs. */
import { useState } from "preact/hooks";
import { cluster } from "../../app/http";
import { catalog } from "../../app/i18n";
import { at, type KubernetesObject, type ObjectList } from "../../app/kubernetes";
import { objectPath } from "../../app/resources";
import { formatTime } from "../../app/time";
import { Dialog, Empty, ErrorBox, Loading, Select } from "../../components";
import type { ActionProps } from "..";
import { DiffView } from "../editor/DiffView";
import { toYaml } from "../editor/yaml";
import { useLoad } from "../load";
import { kubectl } from "./kubectl";
import { PatchDialog } from "./PatchDialog";
import { type Revision, revisionsOfControllerRevisions, revisionsOfDeployment } from "./revisions";

const t = catalog({
  title: ["Roll back {name}", "回滚 {name}"],
  to: ["Go back to", "回滚到"],
  revision: ["Revision {n}, {time}", "版本 {n}，{time}"],
  templates: ["The template now against that revision", "当前模板与该版本对比"],
  object: ["The whole object against the dry run", "整个对象与试运行结果对比"],
  action: ["Roll back", "回滚"],
  none: ["There is no earlier revision", "没有更早的版本"],
});

export default function Rollback({ cluster: clusterName, resource, targets, onClose }: ActionProps) {
  const { namespace = "", name = "" } = targets[0] ?? {};
  const [chosen, setChosen] = useState("");
  const loaded = useLoad(async () => {
    const client = cluster(clusterName);
    const isDeployment = resource.name === "deployments";
    const [object, others] = await Promise.all([
      client.k8s<KubernetesObject>(objectPath(resource, namespace, name)),
      client.k8s<ObjectList>(`/apis/apps/v1/namespaces/${encodeURIComponent(namespace)}/${isDeployment ? "replicasets" : "controllerrevisions"}`),
    ]);
    const revisions = (isDeployment ? revisionsOfDeployment : revisionsOfControllerRevisions)(object, others.items ?? []);
    return { object, earlier: revisions.slice(1) };
  }, [clusterName, resource.name, namespace, name]);

  const title = t("title", { name });
  if (!loaded.value) {
    return <Dialog title={title} onClose={onClose}>{loaded.error ? <ErrorBox error={loaded.error} /> : <Loading />}</Dialog>;
  }
  const { object, earlier } = loaded.value;
  const revision: Revision | undefined = earlier.find((item) => String(item.number) === chosen) ?? earlier[0];
  if (!revision) return <Dialog title={title} onClose={onClose}><Empty title={t("none")} /></Dialog>;
  return (
    <PatchDialog title={title} action={t("action")} cluster={clusterName} resource={resource} targets={targets} onClose={onClose}
      patch={revision.patch} command={kubectl.undo({ resource, namespace, name }, revision.number)}>
      <Select label={t("to")} value={String(revision.number)} onChange={setChosen}
        options={earlier.map((item) => [String(item.number), t("revision", { n: item.number, time: formatTime(item.created) }) + (item.cause ? `: ${item.cause}` : "")])} />
      <h3>{t("templates")}</h3>
      <DiffView before={toYaml(at(object, "spec", "template"))} after={revision.templateYaml} />
      <h3>{t("object")}</h3>
    </PatchDialog>
  );
}
