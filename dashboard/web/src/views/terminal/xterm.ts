/**
 * xterm.js with its generated styles as adopted sheets: it writes them to style elements, which the content security
 * policy refuses.
 */
import { effect } from "@preact/signals";
import { FitAddon } from "@xterm/addon-fit";
import { type ITheme, Terminal } from "@xterm/xterm";
import { theme } from "../../app/theme";
import "@xterm/xterm/css/xterm.css";

const STYLE_STAND_IN = "template";

export interface TerminalHandle {
  readonly columns: number;
  readonly rows: number;
  write(data: Uint8Array | string): void;
  fit(): void;
  focus(): void;
  dispose(): void;
}

export interface TerminalOptions {
  readonly label: string;
  readonly onData: (data: string) => void;
  readonly onResize: (columns: number, rows: number) => void;
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function colours(): ITheme {
  return {
    background: colour("--surface-sunken"), foreground: colour("--text"), cursor: colour("--accent"), selectionBackground: colour("--surface-selected"),
    red: colour("--bad"), green: colour("--good"), yellow: colour("--warning"), blue: colour("--accent"),
  };
}

/** Runs a function in which the document makes inert elements in place of style elements. */
function withoutStyleElements(run: () => void): void {
  const create = document.createElement.bind(document) as (tag: string) => HTMLElement;
  Object.defineProperty(document, "createElement", { configurable: true, value: (tag: string) => create(tag === "style" ? STYLE_STAND_IN : tag) });
  try {
    run();
  } finally {
    Reflect.deleteProperty(document, "createElement"); // The method of the prototype shows again.
  }
}

/** Copies the generated styles below a host into one adopted sheet, as often as they change. */
function adoptStyles(host: HTMLElement): () => void {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  const copy = (): void => sheet.replaceSync([...host.querySelectorAll(STYLE_STAND_IN)].map((style) => style.textContent ?? "").join("\n"));
  const isStyle = (node: Node): boolean => node instanceof HTMLTemplateElement;
  const observer = new MutationObserver((records) => {
    if (records.some(({ target, addedNodes }) => isStyle(target) || [...addedNodes].some(isStyle))) copy();
  });
  observer.observe(host, { childList: true, subtree: true });
  return () => {
    observer.disconnect();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((item) => item !== sheet);
  };
}

export function createTerminal(host: HTMLElement, options: TerminalOptions): TerminalHandle {
  const terminal = new Terminal({
    fontFamily: colour("--mono") || "monospace", fontSize: 13, cursorBlink: false, scrollback: 5000, screenReaderMode: true,
    theme: colours(),
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  const release = adoptStyles(host);
  withoutStyleElements(() => terminal.open(host));
  terminal.textarea?.setAttribute("aria-label", options.label);
  terminal.onData(options.onData);
  terminal.onBinary(options.onData);
  terminal.onResize(({ cols, rows }) => options.onResize(cols, rows));
  const observer = new ResizeObserver(() => fit.fit());
  observer.observe(host);
  const repaint = (): void => void (terminal.options.theme = colours());
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", repaint);
  const stopTheme = effect(() => {
    void theme.value;
    window.requestAnimationFrame(repaint); // After the attribute of the root element has changed.
  });
  fit.fit();
  return {
    get columns() { return terminal.cols; },
    get rows() { return terminal.rows; },
    write: (data) => terminal.write(data),
    fit: () => fit.fit(),
    focus: () => terminal.focus(),
    dispose: () => {
      observer.disconnect();
      media.removeEventListener("change", repaint);
      stopTheme();
      terminal.dispose();
      release();
    },
  };
}
