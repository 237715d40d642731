/** What a person chose in this browser: theme, language, namespace, columns. Never credentials. */
const PREFIX = "sampan.";

export function readSetting(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null; // The browser refuses storage to this page.
  }
}

export function writeSetting(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value);
  } catch {
    // The browser refuses storage to this page: the choice lasts until the page closes.
  }
}
