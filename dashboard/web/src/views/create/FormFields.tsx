/** Draws the fields of a form model, with the server's messages at their places. */
import { Button, Checkbox, Field, Select } from "../../components";
import { catalog } from "../../app/i18n";
import { initialValues, type FieldValue, type FormField, type FormValues, type ListField, type Pair, type PairsField } from "./fields";
import { label } from "./labels";

const t = catalog({
  key: ["Key", "键"],
  value: ["Value", "值"],
  addPair: ["Add entry", "添加条目"],
  remove: ["Remove", "移除"],
  item: ["{what} {n}", "{what} {n}"],
});

interface FormFieldsProps {
  readonly fields: readonly FormField[];
  readonly values: FormValues;
  readonly onChange: (values: FormValues) => void;
  readonly errors: ReadonlyMap<string, string>;
  readonly parent?: string;
}

export function FormFields({ fields, values, onChange, errors, parent = "" }: FormFieldsProps) {
  return (
    <>
      {fields.map((field) => {
        const path = parent ? `${parent}.${field.path}` : field.path;
        const set = (value: FieldValue) => onChange({ ...values, [field.path]: value });
        return <OneField key={field.path} field={field} path={path} value={values[field.path]} set={set} errors={errors} />;
      })}
    </>
  );
}

interface OneFieldProps {
  readonly field: FormField;
  readonly path: string;
  readonly value: FieldValue | undefined;
  readonly set: (value: FieldValue) => void;
  readonly errors: ReadonlyMap<string, string>;
}

function OneField({ field, path, value, set, errors }: OneFieldProps) {
  const error = errors.get(path);
  switch (field.type) {
    case "checkbox":
      return <Checkbox label={label(field.label)} checked={value === true} onChange={set} />;
    case "select":
      return (
        <div class="form-select">
          <Select label={label(field.label)} value={String(value ?? "")} options={field.options.map((option) => [option, option || "–"])} onChange={set} />
          {error && <div class="field-error" role="alert">{error}</div>}
        </div>
      );
    case "pairs":
      return <Pairs field={field} pairs={(value as readonly Pair[] | undefined) ?? []} set={set} error={error} />;
    case "list":
      return <List field={field} path={path} items={(value as readonly FormValues[] | undefined) ?? []} set={set} errors={errors} />;
    default: {
      const type = field.type === "textarea" || field.type === "password" ? field.type : "text";
      return (
        <Field label={label(field.label)} type={type} value={String(value ?? "")} onInput={set} error={error} required={field.required ?? false}
          {...(field.help ? { help: label(field.help) } : {})} {...(field.placeholder ? { placeholder: field.placeholder } : {})} />
      );
    }
  }
}

function Pairs({ field, pairs, set, error }: { field: PairsField; pairs: readonly Pair[]; set: (value: FieldValue) => void; error: string | undefined }) {
  const put = (index: number, pair: Pair) => set(pairs.with(index, pair));
  return (
    <fieldset class="form-group form-wide">
      <legend>{label(field.label)}</legend>
      {field.help && <p class="field-help">{label(field.help)}</p>}
      {error && <div class="field-error" role="alert">{error}</div>}
      {pairs.map(([key, value], index) => (
        <div key={index} class={`form-pair ${field.isLong ? "long" : ""}`}>
          <input aria-label={`${label(field.label)}: ${t("key")} ${index + 1}`} placeholder={t("key")} value={key} spellcheck={false}
            onInput={(event) => put(index, [event.currentTarget.value, value])} />
          {field.isLong
            ? <textarea rows={3} aria-label={`${label(field.label)}: ${t("value")} ${index + 1}`} placeholder={t("value")} value={value} spellcheck={false}
                onInput={(event) => put(index, [key, event.currentTarget.value])} />
            : <input aria-label={`${label(field.label)}: ${t("value")} ${index + 1}`} placeholder={t("value")} value={value} spellcheck={false}
                onInput={(event) => put(index, [key, event.currentTarget.value])} />}
          <Button icon="close" look="quiet" label={`${t("remove")} ${key || index + 1}`} onClick={() => set(pairs.toSpliced(index, 1))} />
        </div>
      ))}
      <Button icon="plus" onClick={() => set([...pairs, ["", ""]])}>{t("addPair")}</Button>
    </fieldset>
  );
}

function List({ field, path, items, set, errors }: { field: ListField; path: string; items: readonly FormValues[]; set: (value: FieldValue) => void; errors: ReadonlyMap<string, string> }) {
  return (
    <fieldset class="form-group form-wide">
      <legend>{label(field.label)}</legend>
      {errors.has(path) && <div class="field-error" role="alert">{errors.get(path)}</div>}
      {items.map((item, index) => (
        <div key={index} class="form-item" role="group" aria-label={t("item", { what: label(field.label), n: index + 1 })}>
          <div class="form-fields">
            <FormFields fields={field.fields} values={item} errors={errors} parent={`${path}[${index}]`} onChange={(next) => set(items.with(index, next))} />
          </div>
          <Button icon="close" look="quiet" label={`${t("remove")} ${t("item", { what: label(field.label), n: index + 1 })}`} onClick={() => set(items.toSpliced(index, 1))} />
        </div>
      ))}
      <Button icon="plus" onClick={() => set([...items, initialValues(field.fields)])}>{label(field.add)}</Button>
    </fieldset>
  );
}
