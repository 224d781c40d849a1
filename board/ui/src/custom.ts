/** The form of custom inputs: what the user has entered, as text, and its conversion to a request. */

import type { CustomFill, CustomForm, CustomInput } from "./contract";
import { stored } from "./stored";

export type FillKind = CustomFill["kind"];

export interface Field {
  kind: FillKind;
  value: string;
  low: string;
  high: string;
  values: string;
}

export interface Draft {
  sizes: Record<string, string>;
  values: Record<string, string>;
  inputs: Record<string, Field>;
  seed: string;
}

export const FILLS: [FillKind, string][] = [
  ["problem", "random, as the problem has it"],
  ["values", "these values"],
  ["constant", "one number"],
  ["ramp", "0, 1, 2, …"],
  ["uniform", "random between"],
];

const EMPTY: Field = { kind: "problem", value: "0", low: "-1", high: "1", values: "" };

/** Returns the stored draft of a problem, completed with what the sample has. */
export function load(slug: string, form: CustomForm): Draft {
  let kept: Partial<Draft> = {};
  try {
    kept = JSON.parse(stored.get(`custom.${slug}`) ?? "{}") as Partial<Draft>;
  } catch {
    // An unreadable draft is replaced by the sample.
  }
  const texts = (given: Record<string, number>, old: Record<string, string> | undefined) =>
    Object.fromEntries(Object.entries(given).map(([name, value]) => [name, old?.[name] ?? String(value)]));
  return {
    sizes: texts(form.sizes, kept.sizes),
    values: texts(form.values, kept.values),
    inputs: Object.fromEntries(form.inputs.map(({ name }) => [name, { ...EMPTY, ...kept.inputs?.[name] }])),
    seed: kept.seed ?? "0",
  };
}

export function save(slug: string, draft: Draft): void {
  stored.set(`custom.${slug}`, JSON.stringify(draft));
}

export class Mistake extends Error {}

/** Converts a draft to a request. Throws a Mistake that names the field; the server checks the rest. */
export function request(draft: Draft): CustomInput {
  const all = <T>(fields: Record<string, string>, read: (name: string, text: string) => T) =>
    Object.fromEntries(Object.entries(fields).map(([name, text]) => [name, read(name, text)]));
  return {
    sizes: all(draft.sizes, whole),
    values: all(draft.values, real),
    inputs: Object.fromEntries(Object.entries(draft.inputs).map(([name, field]) => [name, fill(name, field)])),
    seed: whole("seed", draft.seed),
  };
}

function fill(name: string, field: Field): CustomFill {
  switch (field.kind) {
    case "constant":
      return { kind: "constant", value: real(name, field.value) };
    case "uniform":
      return { kind: "uniform", low: real(name, field.low), high: real(name, field.high) };
    case "values":
      return { kind: "values", values: numbers(name, field.values) };
    default:
      return { kind: field.kind };
  }
}

/** Reads numbers between spaces, commas and brackets. Integers that JavaScript cannot represent stay texts. */
export function numbers(name: string, text: string): (number | string)[] {
  const words = text.split(/[\s,;[\]]+/).filter((word) => word !== "");
  return words.map((word) => {
    if (/^[+-]?\d+$/.test(word) && !Number.isSafeInteger(Number(word))) return word.replace(/^\+/, "");
    return real(name, word);
  });
}

function real(name: string, text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value)) throw new Mistake(`${name}: "${text.slice(0, 40)}" is not a number.`);
  return value;
}

function whole(name: string, text: string): number {
  const value = real(name, text);
  if (!Number.isSafeInteger(value)) throw new Mistake(`${name}: "${text.slice(0, 40)}" is not a whole number.`);
  return value;
}
