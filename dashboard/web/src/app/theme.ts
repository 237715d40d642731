/** Dark, light, or as the system has it: an attribute of the root element that the style sheet reads. */
import { effect, signal } from "@preact/signals";
import { readSetting, writeSetting } from "./settings";

export type Theme = "system" | "light" | "dark";
export const THEMES: readonly Theme[] = ["system", "light", "dark"];

function storedTheme(): Theme {
  const stored = readSetting("theme");
  return stored === "light" || stored === "dark" ? stored : "system";
}

export const theme = signal<Theme>(storedTheme());

effect(() => {
  const root = document.documentElement;
  if (theme.value === "system") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", theme.value);
});

export function setTheme(chosen: Theme): void {
  theme.value = chosen;
  writeSetting("theme", chosen);
}

export function nextTheme(): void {
  setTheme(THEMES[(THEMES.indexOf(theme.peek()) + 1) % THEMES.length] ?? "system");
}
