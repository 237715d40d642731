/** Buttons and shortcuts for what can be done with objects, and the component of the action that runs. */
import { useState } from "preact/hooks";
import { ActionButton } from "../components";
import { objectActions, type ActionTarget, type ObjectAction } from "../views";
import { access } from "./access";
import type { KubernetesObject } from "./kubernetes";
import { Lazy } from "./lazy";
import type { Resource } from "./resources";
import { useShortcuts } from "./shortcuts";

export interface ActionBarProps {
  readonly cluster: string;
  readonly resource: Resource;
  /** What the actions work on: the selected rows, the row under the cursor, or the object of the details. */
  readonly targets: readonly ActionTarget[];
  readonly object?: KubernetesObject;
  /** Only the shortcuts, no buttons: nothing is selected, and the cursor marks the target. */
  readonly isHidden?: boolean;
}

export function ActionBar({ cluster, resource, targets, object, isHidden }: ActionBarProps) {
  const [running, setRunning] = useState<{ action: ObjectAction; targets: readonly ActionTarget[] } | null>(null);
  const actions = objectActions.filter((action) => (targets.length === 1 || action.isBulk) && action.appliesTo(resource, object));
  const questions = new Map(actions.map((action) => [action, action.access(resource, narrowest(targets))]));
  const start = (action: ObjectAction): void => {
    const question = questions.get(action);
    if (targets.length > 0 && question && access(cluster, question).peek().allowed !== false) setRunning({ action, targets });
  };
  const key = targets.map((target) => `${target.namespace ?? ""}/${target.name}`).join(" ");
  useShortcuts(actions.flatMap((action) => (action.shortcut ? [{ keys: action.shortcut, label: action.label, run: () => start(action) }] : [])),
    [cluster, resource, key, object?.metadata.resourceVersion]);
  return (
    <>
      {!isHidden && targets.length > 0 && actions.map((action) => {
        const question = questions.get(action);
        return question && (
          <ActionButton key={action.id} access={access(cluster, question).value} look={action.look ?? "plain"} {...(action.icon ? { icon: action.icon } : {})} onClick={() => start(action)}>
            {action.label()}
          </ActionButton>
        );
      })}
      {running && (
        <Lazy key={running.action.id} load={running.action.load}
          props={{ cluster, resource, targets: running.targets, ...(object ? { object } : {}), onClose: () => setRunning(null) }} />
      )}
    </>
  );
}

/** What is asked of RBAC for several objects: the namespace that they share, or the whole cluster. */
export function narrowest(targets: readonly ActionTarget[]): ActionTarget {
  const [first] = targets;
  if (!first) return { name: "" };
  if (targets.length === 1) return first;
  const isShared = targets.every((target) => target.namespace === first.namespace);
  return isShared && first.namespace ? { namespace: first.namespace, name: "" } : { name: "" };
}
