/** The views, tabs and actions that act on objects, look into them and explain them. */
import { catalog } from "../app/i18n";
import { at } from "../app/kubernetes";
import { qualifiedName, type Resource } from "../app/resources";
import { isClaim, isPod, selectsPods } from "./pods";
import type { ActionTarget, DetailTab, ObjectAction, View } from ".";

const t = catalog({
  create: ["Create", "创建"],
  edit: ["Edit", "编辑"],
  scale: ["Scale", "伸缩"],
  restart: ["Restart", "重启"],
  rollback: ["Roll back", "回滚"],
  pause: ["Pause", "暂停"],
  resume: ["Resume", "恢复"],
  cordon: ["Cordon", "停止调度"],
  uncordon: ["Uncordon", "恢复调度"],
  drain: ["Drain", "排空"],
  trigger: ["Run now", "立即运行"],
  delete: ["Delete", "删除"],
  logs: ["Logs", "日志"],
  terminal: ["Terminal", "终端"],
  files: ["Files", "文件"],
  charts: ["Charts", "图表"],
  ports: ["Ports", "端口"],
  trace: ["Birth", "诞生"],
  schedule: ["Scheduling", "调度"],
  map: ["Map", "地图"],
  timeline: ["Timeline", "时间线"],
  queues: ["Controller queues", "控制器队列"],
  audit: ["Audit", "审计"],
  tour: ["Guided tour", "导览"],
});

function hasContainers(resource: Resource): boolean {
  return isPod(resource) || selectsPods(resource);
}

export const toolViews: readonly View[] = [
  { id: "create", path: "c/:cluster/create", title: () => t("create"), navigation: { icon: "plus", shortcut: "g +" }, load: () => import("./create") },
  { id: "create", path: "c/:cluster/create/:kind", title: () => t("create"), load: () => import("./create") },
  { id: "map", path: "c/:cluster/map", title: () => t("map"), navigation: { icon: "map", shortcut: "g a" }, load: () => import("./map") },
  { id: "timeline", path: "c/:cluster/timeline", title: () => t("timeline"), feature: "flightRecorder", navigation: { icon: "clock", shortcut: "g l" }, load: () => import("./timeline") },
  { id: "queues", path: "c/:cluster/queues", title: () => t("queues"), feature: "queues", navigation: { icon: "queue", shortcut: "g q" }, load: () => import("./queues") },
  { id: "audit", path: "c/:cluster/audit", title: () => t("audit"), feature: "flightRecorder", navigation: { icon: "person", shortcut: "g u" }, load: () => import("./audit") },
  { id: "tour", path: "c/:cluster/tour", title: () => t("tour"), navigation: { icon: "flag", shortcut: "g h" }, load: () => import("./tour") },
];

export const toolTabs: readonly DetailTab[] = [
  { id: "logs", label: () => t("logs"), appliesTo: hasContainers, load: () => import("./logs/LogsTab") },
  { id: "terminal", label: () => t("terminal"), appliesTo: hasContainers, load: () => import("./terminal/TerminalTab") },
  { id: "files", label: () => t("files"), appliesTo: (resource) => hasContainers(resource) || isClaim(resource), load: () => import("./files/FilesTab") },
  {
    id: "charts", label: () => t("charts"), feature: "metrics", load: () => import("./charts/ChartsTab"),
    appliesTo: (resource) => hasContainers(resource) || qualifiedName(resource) === "nodes",
  },
  { id: "trace", label: () => t("trace"), feature: "flightRecorder", appliesTo: isPod, load: () => import("./trace/TraceTab") },
  { id: "schedule", label: () => t("schedule"), feature: "why", appliesTo: isPod, load: () => import("./schedule/ScheduleTab") },
  { id: "ports", label: () => t("ports"), appliesTo: (resource) => ["pods", "services"].includes(qualifiedName(resource)), load: () => import("./terminal/PortsTab") },
  { id: "edit", label: () => t("edit"), appliesTo: (resource) => resource.verbs.includes("update"), load: () => import("./editor/EditTab") },
];

const WITH_TEMPLATE = new Set(["deployments.apps", "statefulsets.apps", "daemonsets.apps"]);
const is = (resource: Resource, ...names: readonly string[]): boolean => names.includes(qualifiedName(resource));

function question(verb: string, subresource = "") {
  return (resource: Resource, target: ActionTarget) => ({
    verb, group: resource.group, resource: resource.name, name: target.name,
    ...(subresource ? { subresource } : {}), ...(target.namespace ? { namespace: target.namespace } : {}),
  });
}

export const toolActions: readonly ObjectAction[] = [
  {
    id: "scale", label: () => t("scale"), shortcut: "s", isBulk: true, access: question("patch", "scale"),
    appliesTo: (resource) => resource.subresources.includes("scale"), load: () => import("./actions/Scale"),
  },
  {
    id: "restart", label: () => t("restart"), icon: "refresh", shortcut: "r", isBulk: true, access: question("patch"),
    appliesTo: (resource) => WITH_TEMPLATE.has(qualifiedName(resource)), load: () => import("./actions/Restart"),
  },
  {
    id: "rollback", label: () => t("rollback"), shortcut: "b", isBulk: false, access: question("patch"),
    appliesTo: (resource) => WITH_TEMPLATE.has(qualifiedName(resource)), load: () => import("./actions/Rollback"),
  },
  {
    id: "pause", label: () => t("pause"), shortcut: "p", isBulk: false, access: question("patch"), load: () => import("./actions/Pause"),
    appliesTo: (resource, object) => object !== undefined && is(resource, "deployments.apps", "jobs.batch", "cronjobs.batch") && !isStopped(object),
  },
  {
    id: "resume", label: () => t("resume"), shortcut: "p", isBulk: false, access: question("patch"), load: () => import("./actions/Pause"),
    appliesTo: (resource, object) => object !== undefined && is(resource, "deployments.apps", "jobs.batch", "cronjobs.batch") && isStopped(object),
  },
  {
    id: "trigger", label: () => t("trigger"), shortcut: "t", isBulk: false, load: () => import("./actions/Trigger"),
    access: (_resource, target) => ({ verb: "create", group: "batch", resource: "jobs", ...(target.namespace ? { namespace: target.namespace } : {}) }),
    appliesTo: (resource) => is(resource, "cronjobs.batch"),
  },
  {
    id: "cordon", label: () => t("cordon"), shortcut: "c", isBulk: true, access: question("patch"), load: () => import("./actions/Cordon"),
    appliesTo: (resource, object) => is(resource, "nodes") && at(object, "spec", "unschedulable") !== true,
  },
  {
    id: "uncordon", label: () => t("uncordon"), shortcut: "c", isBulk: false, access: question("patch"), load: () => import("./actions/Cordon"),
    appliesTo: (resource, object) => is(resource, "nodes") && at(object, "spec", "unschedulable") === true,
  },
  {
    id: "drain", label: () => t("drain"), shortcut: "d", look: "danger", isBulk: false, access: question("patch"), load: () => import("./actions/Drain"),
    appliesTo: (resource) => is(resource, "nodes"),
  },
  {
    id: "delete", label: () => t("delete"), look: "danger", shortcut: "Delete", isBulk: true, access: question("delete"),
    appliesTo: (resource) => resource.verbs.includes("delete"), load: () => import("./actions/Delete"),
  },
];

function isStopped(object: unknown): boolean {
  return at(object, "spec", "paused") === true || at(object, "spec", "suspend") === true;
}
