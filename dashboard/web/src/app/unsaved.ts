/** Text that was typed and not yet sent: the page asks before it is left. */
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

const unsaved = new Set<object>();

/** What the person wanted to do when the page asked; null while there is no question. */
export const question = signal<{ readonly leave: () => void; readonly stay: () => void } | null>(null);

export function hasUnsaved(): boolean {
  return unsaved.size > 0;
}

/** Marks the component as one with unsaved text. The function that it returns forgets the text, such as after it was sent. */
export function useUnsaved(isUnsaved: boolean): () => void {
  const token = useRef({}).current;
  useLayoutEffect(() => {
    if (isUnsaved) unsaved.add(token);
    else unsaved.delete(token);
  }, [isUnsaved]);
  useEffect(() => () => void unsaved.delete(token), []);
  return () => void unsaved.delete(token);
}

/** Does something that loses unsaved text: at once if there is none, otherwise after the person agreed. */
export function askToLeave(leave: () => void, stay: () => void = () => undefined): void {
  if (!hasUnsaved()) {
    leave();
    return;
  }
  question.peek()?.stay();
  const close = (then: () => void) => () => {
    question.value = null;
    then();
  };
  question.value = { stay: close(stay), leave: close(() => { unsaved.clear(); leave(); }) };
}

/** Makes the browser ask before it closes or reloads the page. */
export function startUnsavedGuard(): void {
  window.addEventListener("beforeunload", (event) => { if (hasUnsaved()) event.preventDefault(); });
}
