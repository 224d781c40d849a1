/** CodeMirror configured for HIP: the part of the editor that is loaded on demand. */

import { indentWithTab } from "@codemirror/commands";
import { cpp } from "@codemirror/lang-cpp";
import { HighlightStyle, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic as Mark, lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState, RangeSet, RangeSetBuilder, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, GutterMarker, gutter, keymap } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { basicSetup } from "codemirror";
import type { Diagnostic } from "./compiler";
import { percent } from "./format";
import type { Heat } from "./observed";

/** Interface of the editor for pages. */
export interface EditorHandle {
  text(): string;
  /** Replaces the text, as one undoable step. */
  replace(text: string): void;
  goTo(line: number, column?: number): void;
  mark(diagnostics: Diagnostic[]): void;
  /** Highlights lines and scrolls to the first of them. */
  light(lines: number[]): void;
  /** Shows a column with the heat of lines; none for an empty list. */
  heat(lines: Heat[]): void;
}

export interface Surface extends EditorHandle {
  destroy(): void;
}

interface Listener {
  changed: (text: string) => void;
  cursor: (line: number) => void;
}

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.controlKeyword, tags.definitionKeyword], color: "var(--code-keyword)" },
  { tag: [tags.typeName, tags.className, tags.namespace, tags.standard(tags.typeName)], color: "var(--code-type)" },
  { tag: [tags.string, tags.character, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.literal], color: "var(--code-number)" },
  { tag: [tags.lineComment, tags.blockComment], color: "var(--code-comment)" },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName)], color: "var(--code-function)" },
  { tag: [tags.processingInstruction, tags.meta], color: "var(--code-meta)" },
]);

const look = EditorView.theme({
  "&": { height: "100%", color: "var(--ink)", backgroundColor: "transparent", fontSize: "13px" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6", overflow: "auto", fontVariantLigatures: "none" },
  ".cm-content": { caretColor: "var(--accent)", padding: "10px 0 40px" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--accent)", borderLeftWidth: "2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--selection)",
  },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent) 6%, transparent)" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--ink-3)", border: "none" },
  ".cm-activeLineGutter": { backgroundColor: "transparent", color: "var(--ink)" },
  ".cm-lineNumbers .cm-gutterElement": { padding: "0 6px 0 10px", minWidth: "34px" },
  ".cm-lit": { backgroundColor: "var(--accent-soft)", boxShadow: "inset 3px 0 0 var(--accent)" },
  ".cm-heat-mark": {
    display: "block",
    minWidth: "44px",
    padding: "0 5px",
    textAlign: "right",
    fontSize: "11.5px",
    fontVariantNumeric: "tabular-nums",
    color: "var(--ink)",
    backgroundColor: "color-mix(in srgb, var(--heat-colour) var(--heat), transparent)",
  },
  ".cm-matchingBracket": { backgroundColor: "var(--accent-soft)", outline: "1px solid var(--accent)" },
  ".cm-selectionMatch": { backgroundColor: "color-mix(in srgb, var(--accent) 16%, transparent)" },
  ".cm-tooltip": {
    backgroundColor: "var(--raised)",
    border: "1px solid var(--line-strong)",
    borderRadius: "6px",
    color: "var(--ink)",
  },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent-soft)", color: "var(--ink)" },
  ".cm-panels": { backgroundColor: "var(--surface)", color: "var(--ink)", borderColor: "var(--line)" },
  ".cm-textfield": { backgroundColor: "var(--raised)", borderColor: "var(--line-strong)", color: "var(--ink)" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "var(--raised)", borderColor: "var(--line-strong)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--sunken)", border: "none", color: "var(--ink-2)" },
  // The editor's default markers are data: images, which the content security policy blocks.
  ".cm-lint-marker": { content: "normal", width: "9px", height: "9px", margin: "6px 2px", borderRadius: "50%" },
  ".cm-lint-marker-error": { content: "normal", backgroundColor: "var(--bad)" },
  ".cm-lint-marker-warning": { content: "normal", backgroundColor: "var(--amber)" },
  ".cm-lint-marker-info": { content: "normal", backgroundColor: "var(--line-strong)" },
  ".cm-lintRange": { backgroundImage: "none" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy 1px var(--bad)" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy 1px var(--amber)" },
  ".cm-lintRange-info": { backgroundImage: "none", textDecoration: "underline dotted 1px var(--line-strong)" },
  ".cm-diagnostic": { fontFamily: "var(--mono)", fontSize: "12.5px" },
});

const lightEffect = StateEffect.define<number[]>();
const litLine = Decoration.line({ class: "cm-lit" });
const lit = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, transaction) {
    let next = marks.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (!effect.is(lightEffect)) continue;
      const builder = new RangeSetBuilder<Decoration>();
      for (const line of [...new Set(effect.value)].sort((one, two) => one - two)) {
        if (line < 1 || line > transaction.state.doc.lines) continue;
        const at = transaction.state.doc.line(line).from;
        builder.add(at, at, litLine);
      }
      next = builder.finish();
    }
    return next;
  },
  provide: (field) => EditorView.decorations.from(field),
});

const heatEffect = StateEffect.define<Heat[]>();

/** Heat below this share is not shown. */
const LEAST_HEAT = 0.005;

/** The heat of one line: its share in percent, on a background as strong as the share. */
class HeatMark extends GutterMarker {
  constructor(readonly heat: Heat) {
    super();
  }

  override eq(other: HeatMark): boolean {
    return other.heat.share === this.heat.share && other.heat.text === this.heat.text;
  }

  override toDOM(): Node {
    const mark = document.createElement("span");
    mark.className = "cm-heat-mark";
    // Set by script, which the content security policy permits, unlike a style attribute.
    mark.style.setProperty("--heat", `${Math.round(Math.sqrt(this.heat.share) * 70)}%`);
    mark.title = this.heat.text;
    mark.textContent = percent(this.heat.share);
    return mark;
  }
}

const heats = StateField.define<RangeSet<HeatMark>>({
  create: () => RangeSet.empty,
  update(marks, transaction) {
    let next = marks.map(transaction.changes);
    for (const effect of transaction.effects) {
      if (!effect.is(heatEffect)) continue;
      const { doc } = transaction.state;
      const seen = effect.value.filter(({ line, share }) => line >= 1 && line <= doc.lines && share >= LEAST_HEAT);
      next = RangeSet.of(
        seen.map((heat) => new HeatMark(heat).range(doc.line(heat.line).from)),
        true,
      );
    }
    return next;
  },
});

const heatColumn = gutter({
  class: "cm-heat",
  markers: (view) => view.state.field(heats),
});

export function create(root: ShadowRoot, text: string, listener: Listener): Surface {
  let line = 0;
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        basicSetup,
        keymap.of([indentWithTab]),
        indentUnit.of("    "),
        EditorState.tabSize.of(4),
        cpp(),
        syntaxHighlighting(colours),
        lintGutter(),
        heats,
        heatColumn,
        look,
        lit,
        EditorView.contentAttributes.of({ "aria-label": "Solution, HIP C++", tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) listener.changed(update.state.doc.toString());
          const now = update.state.doc.lineAt(update.state.selection.main.head).number;
          if (update.selectionSet && now !== line) {
            line = now;
            listener.cursor(now);
          }
        }),
      ],
    }),
  });
  return {
    text: () => view.state.doc.toString(),
    replace(next) {
      view.dispatch({
        changes: { from: 0, to: view.state.doc.length, insert: next },
        effects: [lightEffect.of([])],
        selection: { anchor: 0 },
      });
    },
    goTo(target, column = 1) {
      const there = view.state.doc.line(clamp(target, 1, view.state.doc.lines));
      const anchor = Math.min(there.to, there.from + Math.max(0, column - 1));
      view.dispatch({
        selection: { anchor },
        effects: [lightEffect.of([there.number]), EditorView.scrollIntoView(anchor, { y: "center" })],
      });
      view.focus();
    },
    mark(diagnostics) {
      view.dispatch(setDiagnostics(view.state, diagnostics.flatMap((diagnostic) => toMark(view.state, diagnostic))));
    },
    light(lines) {
      const effects: StateEffect<unknown>[] = [lightEffect.of(lines)];
      const first = Math.min(...lines);
      if (first >= 1 && first <= view.state.doc.lines) {
        effects.push(EditorView.scrollIntoView(view.state.doc.line(first).from, { y: "nearest", yMargin: 60 }));
      }
      view.dispatch({ effects });
    },
    heat: (lines) => view.dispatch({ effects: heatEffect.of(lines) }),
    destroy: () => view.destroy(),
  };
}

function toMark(state: EditorState, diagnostic: Diagnostic): Mark[] {
  if (diagnostic.line < 1 || diagnostic.line > state.doc.lines) return [];
  const line = state.doc.line(diagnostic.line);
  const column = Math.min(line.to, line.from + Math.max(0, diagnostic.column - 1));
  // Where only the line is known, the mark begins at its first word.
  const from = column + (/^\s*/.exec(state.sliceDoc(column, line.to))?.[0].length ?? 0);
  const word = /^\w+/.exec(state.sliceDoc(from, line.to))?.[0].length ?? 1;
  return [
    {
      from,
      to: Math.min(line.to, from + word),
      severity: diagnostic.severity === "note" ? "info" : diagnostic.severity,
      message: diagnostic.message,
    },
  ];
}

function clamp(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(high, value));
}
