/** Keys that act without a field in focus, as in k9s. `g p` is two keys after each other. */
import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";

export interface Shortcut {
  /** One key, or keys after each other with blanks between: `?`, `g p`, `Ctrl+k`. */
  readonly keys: string;
  readonly label: () => string;
  readonly run: () => void;
  /** Also while a field has the focus. */
  readonly inFields?: boolean;
}

export const shortcuts = signal<readonly Shortcut[]>([]);
const SEQUENCE_MS = 1200;
let pressed = "";
let pressedAt = 0;

export function addShortcuts(added: readonly Shortcut[]): () => void {
  shortcuts.value = [...added, ...shortcuts.peek()]; // The view that was added last wins.
  return () => {
    shortcuts.value = shortcuts.peek().filter((shortcut) => !added.includes(shortcut));
  };
}

/** Shortcuts of a view, while it is shown. */
export function useShortcuts(added: readonly Shortcut[], dependencies: readonly unknown[]): void {
  // The closures in `added` change with the dependencies, which only the caller knows.
  useLayoutEffect(() => addShortcuts(added), dependencies as unknown[]);
}

export function keyName(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey">): string {
  const modifier = event.ctrlKey || event.metaKey ? "Ctrl+" : event.altKey ? "Alt+" : "";
  return modifier + (event.key === " " ? "Space" : event.key);
}

/** The shortcut that the keys so far complete; whether a longer one begins with them. */
export function matchKeys(sequence: string, known: readonly Shortcut[]): { complete: Shortcut | undefined; isPrefix: boolean } {
  return {
    complete: known.find((shortcut) => shortcut.keys === sequence),
    isPrefix: known.some((shortcut) => shortcut.keys.startsWith(`${sequence} `)),
  };
}

/** Where keys make text: fields, editable content, and everything inside of an editor or terminal. */
const TEXT_INPUTS = "input, textarea, select, [contenteditable]:not([contenteditable=false]), [role=textbox], [role=combobox], [data-editor], .xterm";

/** The elements that a key goes through, from the inmost one. At the document, the target itself is only the host of the shadow root that has the focus. */
export function elementsOf(event: Pick<Event, "composedPath" | "target">): readonly Element[] {
  const path = event.composedPath();
  return (path.length ? path : [event.target]).filter((target): target is Element => target instanceof Element);
}

function handle(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing || /^(Control|Shift|Alt|Meta|Dead|Process)$/.test(event.key)) return;
  const name = keyName(event);
  const elements = elementsOf(event);
  if ((name === "Enter" || name === "Space") && elements.some((element) => element.matches("a, button, summary, input"))) return;
  const inField = elements.some((element) => element.matches(TEXT_INPUTS)) || document.querySelector("dialog[open]") !== null;
  const known = inField ? shortcuts.peek().filter((shortcut) => shortcut.inFields) : shortcuts.peek();
  const isSequence = pressed !== "" && Date.now() - pressedAt < SEQUENCE_MS;
  for (const sequence of isSequence ? [`${pressed} ${name}`, name] : [name]) {
    const { complete, isPrefix } = matchKeys(sequence, known);
    if (complete) {
      pressed = "";
      event.preventDefault();
      complete.run();
      return;
    }
    if (isPrefix) {
      pressed = sequence;
      pressedAt = Date.now();
      return;
    }
  }
  pressed = "";
}

export function startShortcuts(): void {
  document.addEventListener("keydown", handle);
}
