/**
 * English and Chinese. Each module keeps its own catalog of [English, Chinese] pairs, so that a text and its translation
 * stand beside the code that shows them. Kubernetes nouns (Pod, Deployment, namespace) stay as they are.
 */
import { effect, signal } from "@preact/signals";
import { readSetting, writeSetting } from "./settings";

export type Language = "en" | "zh";
export const LANGUAGES: readonly (readonly [Language, string])[] = [["en", "English"], ["zh", "中文"]];

type Pair = readonly [en: string, zh: string];
export type Values = Readonly<Record<string, string | number>>;

function preferredLanguage(): Language {
  const stored = readSetting("language");
  if (stored === "en" || stored === "zh") return stored;
  return navigator.languages.some((tag) => tag.toLowerCase().startsWith("zh")) ? "zh" : "en";
}

export const language = signal<Language>(preferredLanguage());

effect(() => {
  document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en";
});

export function setLanguage(chosen: Language): void {
  language.value = chosen;
  writeSetting("language", chosen);
}

/**
 * Returns the translator of a catalog. `{name}` is replaced by a value. In English, `{n|pod|pods}` is the word that fits
 * the number `n`.
 */
export function catalog<K extends string>(texts: Readonly<Record<K, Pair>>): (key: K, values?: Values) => string {
  return (key, values) => {
    const text = texts[key][language.value === "zh" ? 1 : 0];
    return values ? interpolate(text, values) : text;
  };
}

export function interpolate(text: string, values: Values): string {
  return text.replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (_match, name: string, singular?: string, plural?: string) => {
    const value = values[name];
    if (singular !== undefined && plural !== undefined) return Number(value) === 1 ? singular : plural;
    return value === undefined ? "" : String(value);
  });
}
