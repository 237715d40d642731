/** The YAML editor itself: CodeMirror in a shadow root, so that its styles are adopted sheets, which the content security policy allows. */
import { autocompletion, closeBrackets, completionKeymap, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, foldGutter, foldKeymap, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Annotation, EditorState } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, hoverTooltip, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

export interface CompletionItem {
  readonly label: string;
  readonly detail: string;
  readonly description: string;
  readonly insert: string;
}

export interface SchemaHelp {
  readonly from: number;
  readonly completions: readonly CompletionItem[];
}

export interface EditorOptions {
  readonly text: string;
  readonly label: string;
  readonly isReadOnly: boolean;
  /** Called for what the person changes, not for `setText`. */
  readonly onChange: (text: string) => void;
  readonly complete: (text: string, offset: number) => Promise<SchemaHelp | null>;
  readonly describe: (text: string, offset: number) => Promise<string>;
}

export interface Problem {
  readonly line: number;
  readonly message: string;
}

export interface EditorHandle {
  setText(text: string): void;
  setProblems(problems: readonly Problem[]): void;
  focus(): void;
  destroy(): void;
}

const COLOURS = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.content], color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--good)" },
  { tag: tags.comment, color: "var(--text-muted)", fontStyle: "italic" },
  { tag: [tags.meta, tags.punctuation, tags.separator], color: "var(--text-muted)" },
]);

const THEME = EditorView.theme({
  "&": { height: "100%", fontSize: "0.8125rem", color: "var(--text)", backgroundColor: "transparent" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--surface-sunken)", color: "var(--text-muted)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--surface-hover)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--surface-selected)" },
  ".cm-tooltip": { backgroundColor: "var(--surface-raised)", color: "var(--text)", border: "1px solid var(--line-strong)", borderRadius: "6px", maxWidth: "34rem" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--surface-selected)", color: "var(--text)" },
  ".cm-completionDetail": { color: "var(--text-muted)" },
  ".cm-completionInfo": { padding: "0.5rem", whiteSpace: "pre-wrap" },
  ".cm-help": { padding: "0.5rem 0.75rem", whiteSpace: "pre-wrap", maxHeight: "20rem", overflow: "auto" },
  ".cm-panels": { backgroundColor: "var(--surface-sunken)", color: "var(--text)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--surface-sunken)", border: "1px solid var(--line)", color: "var(--text-muted)" },
});

/** Marks a change that comes from the page, not from the person. */
const fromPage = Annotation.define<boolean>();

export function createEditor(host: HTMLElement, options: EditorOptions): EditorHandle {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const source = async (context: CompletionContext): Promise<CompletionResult | null> => {
    const isTyping = context.matchBefore(/[\w./-]+|:\s|^\s*(?:- )?/);
    if (!isTyping && !context.explicit) return null;
    const help = await options.complete(context.state.doc.toString(), context.pos);
    if (!help || context.aborted || !help.completions.length) return null;
    return {
      from: help.from,
      options: help.completions.map((item) => ({ label: item.label, detail: item.detail, info: item.description, apply: item.insert })),
      validFor: /^[\w./-]*$/,
    };
  };
  const tooltip = hoverTooltip(async (view, position) => {
    const text = await options.describe(view.state.doc.toString(), position);
    if (!text) return null;
    return {
      pos: position,
      create: () => {
        const dom = document.createElement("div");
        dom.className = "cm-help";
        dom.textContent = text;
        return { dom };
      },
    };
  }, { hoverTime: 350 });
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        lineNumbers(), highlightActiveLineGutter(), foldGutter(), history(), drawSelection(), indentOnInput(), bracketMatching(), closeBrackets(),
        highlightActiveLine(), highlightSelectionMatches(), yaml(), syntaxHighlighting(COLOURS), THEME, lintGutter(), tooltip,
        autocompletion({ override: [source], activateOnTyping: true }),
        keymap.of([...defaultKeymap, ...historyKeymap, ...foldKeymap, ...searchKeymap, ...completionKeymap, ...lintKeymap]),
        EditorState.readOnly.of(options.isReadOnly),
        EditorView.contentAttributes.of({ "aria-label": options.label, "aria-multiline": "true" }),
        EditorView.updateListener.of((update) => { if (update.docChanged && !update.transactions.some((transaction) => transaction.annotation(fromPage))) options.onChange(update.state.doc.toString()); }),
      ],
    }),
  });
  // A region that scrolls must be reachable by keyboard also where nothing in it can be edited.
  view.scrollDOM.tabIndex = 0;
  return {
    setText(text) {
      if (text !== view.state.doc.toString()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, annotations: fromPage.of(true) });
    },
    setProblems(problems) {
      const { doc } = view.state;
      const diagnostics = problems.map((problem): Diagnostic => {
        const line = doc.line(Math.min(doc.lines, Math.max(1, problem.line + 1)));
        const start = line.from + (/^[\s-]*/.exec(line.text)?.[0].length ?? 0);
        return { from: Math.min(start, line.to), to: line.to, severity: "error", message: problem.message };
      });
      view.dispatch(setDiagnostics(view.state, diagnostics));
    },
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}
