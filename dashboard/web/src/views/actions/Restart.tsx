/** Restarts the pods of a workload by a change of its template, as `kubectl rollout restart` does. */
import { useMemo } from "preact/hooks";
import { catalog } from "../../app/i18n";
import type { ActionProps } from "..";
import { kubectl } from "./kubectl";
import { PatchDialog } from "./PatchDialog";

const t = catalog({
  title: ["Restart {name}", "重启 {name}"],
  several: ["Restart {n} workloads", "重启 {n} 个工作负载"],
  explain: ["Each pod is replaced, a few at a time, as the update strategy says.", "将按更新策略逐步替换每个 Pod。"],
  action: ["Restart", "重启"],
});

export default function Restart({ cluster, resource, targets, onClose }: ActionProps) {
  const restartedAt = useMemo(() => new Date().toISOString().replace(/\.\d+/, ""), []);
  const body = { spec: { template: { metadata: { annotations: { "kubectl.kubernetes.io/restartedAt": restartedAt } } } } };
  return (
    <PatchDialog
      title={targets.length === 1 ? t("title", { name: targets[0]?.name ?? "" }) : t("several", { n: targets.length })}
      action={t("action")} cluster={cluster} resource={resource} targets={targets} onClose={onClose}
      patch={{ mediaType: "application/strategic-merge-patch+json", body }}
      command={targets.map((target) => kubectl.restart({ resource, namespace: target.namespace ?? "", name: target.name })).join("\n")}>
      <p>{t("explain")}</p>
    </PatchDialog>
  );
}
