/** Buttons. An action that RBAC forbids stays visible, cannot run, and says why. */
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { Access } from "../app/access";
import { Icon, type IconName } from "./Icon";

export interface ButtonProps {
  readonly children?: ComponentChildren;
  readonly icon?: IconName;
  /** What the button does, when it shows an icon only. */
  readonly label?: string;
  readonly look?: "plain" | "primary" | "danger" | "quiet";
  readonly type?: "button" | "submit";
  readonly disabled?: boolean;
  readonly title?: string;
  readonly pressed?: boolean;
  readonly expanded?: boolean;
  readonly class?: string;
  readonly onClick?: (event: MouseEvent) => void;
}

export function Button(props: ButtonProps) {
  const { children, icon, label, look = "plain", type = "button", disabled, title, pressed, expanded, onClick } = props;
  return (
    <button type={type} class={`button ${look} ${children ? "" : "icon-only"} ${props.class ?? ""}`} disabled={disabled ?? false}
      title={title ?? label} aria-label={label} aria-pressed={pressed} aria-expanded={expanded} onClick={onClick}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** A button whose action needs a right: `access` is the answer of `access(cluster, question).value`. */
export function ActionButton({ access, ...props }: ButtonProps & { readonly access: Access }) {
  const id = useId();
  if (access.allowed !== false) return <Button {...props} disabled={props.disabled ?? access.allowed === undefined} />;
  // aria-disabled instead of disabled keeps the button in the tab order, so that everybody can read the reason.
  return (
    <span class="denied" title={access.reason}>
      <button type="button" class={`button ${props.look ?? "plain"} ${props.class ?? ""}`} aria-disabled="true" aria-describedby={id} aria-label={props.label}>
        <Icon name="lock" />
        {props.children}
      </button>
      <span id={id} class="visually-hidden">{access.reason}</span>
    </span>
  );
}
