/** A modal dialog: the browser's own, which holds the focus and closes with Escape. */
import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { catalog } from "../app/i18n";
import { Button } from "./Button";

const t = catalog({ close: ["Close", "关闭"] });

export interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** Buttons at the bottom; the main one last. */
  readonly footer?: ComponentChildren;
  readonly size?: "small" | "medium" | "large";
}

/** Shown while it is rendered: the caller keeps the state. */
export function Dialog({ title, onClose, children, footer, size = "medium" }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Before the browser handles the next key, which belongs to the dialog and not to the page below.
  useLayoutEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog ref={ref} class={`dialog ${size}`} aria-labelledby={id}
      onCancel={(event) => { event.preventDefault(); onClose(); }}
      onMouseDown={(event) => { if (event.target === ref.current) onClose(); }}>
      <div class="dialog-body">
        <header class="dialog-header">
          <h2 id={id}>{title}</h2>
          <Button icon="close" look="quiet" label={t("close")} onClick={onClose} />
        </header>
        <div class="dialog-content">{children}</div>
        {footer && <footer class="dialog-footer">{footer}</footer>}
      </div>
    </dialog>
  );
}
