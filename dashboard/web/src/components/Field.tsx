/** Labelled form fields with the server's message below. */
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { Icon } from "./Icon";

export interface FieldProps {
  readonly label: string;
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly help?: ComponentChildren;
  readonly error?: string | undefined;
  readonly type?: "text" | "number" | "password" | "textarea";
  readonly placeholder?: string;
  readonly required?: boolean;
  readonly disabled?: boolean;
  readonly autofocus?: boolean;
  readonly rows?: number;
  readonly list?: readonly string[];
}

export function Field(props: FieldProps) {
  const { label, value, onInput, help, error, type = "text", list } = props;
  const id = useId();
  const shared = {
    id, value, placeholder: props.placeholder, required: props.required ?? false, disabled: props.disabled ?? false, autoFocus: props.autofocus ?? false,
    "aria-invalid": error ? true : undefined,
    "aria-describedby": error || help ? `${id}-note` : undefined,
    spellcheck: false, autocomplete: "off" as const,
    onInput: (event: { currentTarget: { value: string } }) => onInput(event.currentTarget.value),
  };
  return (
    <div class={`field ${error ? "invalid" : ""}`}>
      <label for={id}>{label}</label>
      {type === "textarea" && <textarea rows={props.rows ?? 6} {...shared} />}
      {type === "password" && <input type="password" {...shared} />}
      {type === "number" && <input type="number" {...shared} />}
      {type === "text" && <input type="text" list={list ? `${id}-list` : undefined} {...shared} />}
      {list && <datalist id={`${id}-list`}>{list.map((option) => <option key={option} value={option} />)}</datalist>}
      {(error || help) && <div id={`${id}-note`} class={error ? "field-error" : "field-help"} aria-live="polite">{error ?? help}</div>}
    </div>
  );
}

export interface SelectProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly (readonly [value: string, text: string])[];
  readonly onChange: (value: string) => void;
  readonly hideLabel?: boolean;
  readonly disabled?: boolean;
}

export function Select({ label, value, options, onChange, hideLabel, disabled }: SelectProps) {
  const id = useId();
  return (
    <div class={`field ${hideLabel ? "inline" : ""}`}>
      <label for={id} class={hideLabel ? "visually-hidden" : ""}>{label}</label>
      <select id={id} value={value} disabled={disabled ?? false} onChange={(event) => {
        const chosen = event.currentTarget.value;
        event.currentTarget.value = value; // The choice is shown when the caller has taken it over, who may ask first.
        onChange(chosen);
      }}>
        {options.map(([option, text]) => <option key={option} value={option}>{text}</option>)}
      </select>
    </div>
  );
}

export interface SearchProps {
  readonly label: string;
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly placeholder?: string;
  readonly id?: string;
}

export function Search({ label, value, onInput, placeholder, id }: SearchProps) {
  return (
    <div class="search">
      <Icon name="search" />
      <input id={id} type="search" value={value} aria-label={label} placeholder={placeholder ?? label} spellcheck={false} autocomplete="off"
        onInput={(event) => onInput(event.currentTarget.value)} />
    </div>
  );
}

export function Checkbox({ label, checked, onChange, disabled }: { label: string; checked: boolean; onChange: (checked: boolean) => void; disabled?: boolean }) {
  return (
    <label class="checkbox">
      <input type="checkbox" checked={checked} disabled={disabled ?? false} onChange={(event) => onChange(event.currentTarget.checked)} />
      {label}
    </label>
  );
}
