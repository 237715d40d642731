/** Pauses and resumes a rollout, or suspends and resumes a Job or CronJob. */
import { catalog } from "../../app/i18n";
import { at } from "../../app/kubernetes";
import type { ActionProps } from "..";
import { kubectl } from "./kubectl";
import { PatchDialog } from "./PatchDialog";

const t = catalog({
  pause: ["Pause {name}", "暂停 {name}"],
  resume: ["Resume {name}", "恢复 {name}"],
  pauseRollout: ["Changes of the template wait until the rollout is resumed. Pods that run stay.", "模板的更改将等到恢复后才生效，正在运行的 Pod 不受影响。"],
  suspendJob: ["Its pods are deleted; they start again when it is resumed.", "其 Pod 将被删除，恢复后重新启动。"],
  suspendCronJob: ["No further jobs start. Jobs that run stay.", "不再启动新的 Job，正在运行的不受影响。"],
  resumeHelp: ["It continues where it stopped.", "将从停止处继续。"],
  actionPause: ["Pause", "暂停"],
  actionResume: ["Resume", "恢复"],
});

export default function Pause({ cluster, resource, targets, object, onClose }: ActionProps) {
  const isDeployment = resource.name === "deployments";
  const isStopped = at(object, "spec", isDeployment ? "paused" : "suspend") === true;
  const name = targets[0]?.name ?? "";
  const body = { spec: isDeployment ? { paused: isStopped ? null : true } : { suspend: !isStopped } };
  const explain = isStopped ? t("resumeHelp") : isDeployment ? t("pauseRollout") : resource.name === "jobs" ? t("suspendJob") : t("suspendCronJob");
  const commands = targets.map((target) => {
    const own = { resource, namespace: target.namespace ?? "", name: target.name };
    return isDeployment ? kubectl.pause(own, !isStopped) : kubectl.suspend(own, !isStopped);
  });
  return (
    <PatchDialog title={t(isStopped ? "resume" : "pause", { name })} action={t(isStopped ? "actionResume" : "actionPause")} cluster={cluster} resource={resource}
      targets={targets} onClose={onClose} patch={{ mediaType: "application/merge-patch+json", body }} command={commands.join("\n")}>
      <p>{explain}</p>
    </PatchDialog>
  );
}
