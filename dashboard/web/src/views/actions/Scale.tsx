/** Changes the number of replicas through the scale subresource. */
import { useEffect, useState } from "preact/hooks";
import { cluster } from "../../app/http";
import { catalog } from "../../app/i18n";
import { at, type KubernetesObject } from "../../app/kubernetes";
import { objectPath } from "../../app/resources";
import { Button, Field } from "../../components";
import type { ActionProps } from "..";
import { kubectl } from "./kubectl";
import { PatchDialog } from "./PatchDialog";

const t = catalog({
  title: ["Scale {name}", "伸缩 {name}"],
  several: ["Scale {n} objects", "伸缩 {n} 个对象"],
  replicas: ["Replicas", "副本数"],
  action: ["Scale", "伸缩"],
  fewer: ["One fewer", "减一"],
  more: ["One more", "加一"],
  invalid: ["A whole number from 0.", "从 0 开始的整数。"],
});

export default function Scale({ cluster: clusterName, resource, targets, object, onClose }: ActionProps) {
  const initial = at(object, "spec", "replicas");
  const [text, setText] = useState(typeof initial === "number" ? String(initial) : "");
  const first = targets[0];
  useEffect(() => {
    if (!first || text) return;
    void cluster(clusterName).k8s<KubernetesObject>(objectPath(resource, first.namespace, first.name)).then(
      (live) => setText((typed) => typed || String(at(live, "spec", "replicas") ?? 1)), () => setText((typed) => typed || "1"));
  }, []);
  const replicas = /^\d+$/.test(text) ? Number(text) : null;
  return (
    <PatchDialog
      title={targets.length === 1 ? t("title", { name: first?.name ?? "" }) : t("several", { n: targets.length })}
      action={t("action")} cluster={clusterName} resource={resource} targets={targets} onClose={onClose}
      patch={replicas === null ? null : { mediaType: "application/merge-patch+json", body: { spec: { replicas } }, subresource: "scale" }}
      command={targets.map((target) => kubectl.scale({ resource, namespace: target.namespace ?? "", name: target.name }, replicas ?? 0)).join("\n")}>
      <div class="row">
        <Button label={t("fewer")} disabled={!replicas} onClick={() => setText(String((replicas ?? 1) - 1))}>−</Button>
        <Field label={t("replicas")} type="number" value={text} onInput={setText} error={text && replicas === null ? t("invalid") : undefined} />
        <Button icon="plus" label={t("more")} onClick={() => setText(String((replicas ?? 0) + 1))} />
      </div>
    </PatchDialog>
  );
}
