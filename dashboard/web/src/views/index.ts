/**
 * Every view, detail tab and action of the page, each loaded when it is first shown. A view is a module whose default
 * export is a component; it is registered here and nowhere else.
 */
import type { ComponentType } from "preact";
import type { AccessQuestion } from "../app/access";
import { catalog } from "../app/i18n";
import type { KubernetesObject } from "../app/kubernetes";
import type { Resource } from "../app/resources";
import type { Query } from "../app/router";
import type { IconName } from "../components/Icon";
import { toolActions, toolTabs, toolViews } from "./tools";

const t = catalog({
  overview: ["Overview", "概览"],
  login: ["Log in", "登录"],
  summary: ["Summary", "摘要"],
  events: ["Events", "事件"],
  tree: ["Related", "关联"],
  history: ["History", "历史"],
});

export type Params = Readonly<Record<string, string>>;

export interface ViewProps {
  readonly cluster: string;
  readonly params: Params;
  readonly query: Query;
}

interface Module<P> {
  readonly default: ComponentType<P>;
}

export interface View {
  readonly id: string;
  /** Segments below `/ui/`; `:name` is a parameter. The first view that matches wins. */
  readonly path: string;
  readonly title?: () => string;
  /** Shown in the navigation, with a shortcut such as `g o`. Views with parameters but `:cluster` cannot be. */
  readonly navigation?: { readonly icon: IconName; readonly shortcut?: string };
  /** A feature of the session without which the view is hidden. */
  readonly feature?: string;
  readonly load: () => Promise<Module<ViewProps>>;
}

export interface DetailTabProps {
  readonly cluster: string;
  readonly resource: Resource;
  readonly object: KubernetesObject;
  readonly query: Query;
}

export interface DetailTab {
  readonly id: string;
  readonly label: () => string;
  readonly feature?: string;
  readonly appliesTo: (resource: Resource) => boolean;
  readonly load: () => Promise<Module<DetailTabProps>>;
}

export interface ActionTarget {
  readonly namespace?: string;
  readonly name: string;
}

export interface ActionProps {
  readonly cluster: string;
  readonly resource: Resource;
  readonly targets: readonly ActionTarget[];
  /** The live object, when the action starts from its details. */
  readonly object?: KubernetesObject;
  readonly onClose: () => void;
}

/** Something to do with one object, or with several that are selected in a list. Its component is shown while it runs. */
export interface ObjectAction {
  readonly id: string;
  readonly label: () => string;
  readonly icon?: IconName;
  readonly look?: "plain" | "primary" | "danger";
  /** A key that starts the action in lists and details. */
  readonly shortcut?: string;
  readonly isBulk: boolean;
  /** `object` is missing in lists. */
  readonly appliesTo: (resource: Resource, object?: KubernetesObject) => boolean;
  /** The right that the action needs. */
  readonly access: (resource: Resource, target: ActionTarget) => AccessQuestion;
  readonly load: () => Promise<Module<ActionProps>>;
}

export const views: readonly View[] = [
  { id: "login", path: "login", title: () => t("login"), load: () => import("./login") },
  {
    id: "overview", path: "c/:cluster/overview", title: () => t("overview"),
    navigation: { icon: "overview", shortcut: "g o" }, load: () => import("./overview"),
  },
  ...toolViews,
  // Further views stand above this line: the path of lists matches any word.
  { id: "list", path: "c/:cluster/:resource", load: () => import("./list") },
  { id: "detail", path: "c/:cluster/:resource/:namespace/:name", load: () => import("./detail") },
  { id: "detail", path: "c/:cluster/:resource/:namespace/:name/:tab", load: () => import("./detail") },
];

export const detailTabs: readonly DetailTab[] = [
  { id: "summary", label: () => t("summary"), appliesTo: () => true, load: () => import("./detail/Summary") },
  { id: "yaml", label: () => "YAML", appliesTo: () => true, load: () => import("./detail/Yaml") },
  ...toolTabs,
  { id: "events", label: () => t("events"), appliesTo: (resource) => resource.name !== "events", load: () => import("./detail/Events") },
  { id: "tree", label: () => t("tree"), appliesTo: () => true, load: () => import("./detail/Tree") },
  { id: "history", label: () => t("history"), appliesTo: () => true, load: () => import("./detail/History") },
];

export const objectActions: readonly ObjectAction[] = toolActions;
