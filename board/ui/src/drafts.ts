/** Stored drafts: one for each problem, dtype and shape. */

import type { Starter } from "./contract";
import { stored } from "./stored";

function name(slug: string, dtype: string, shape: keyof Starter): string {
  return `draft.${slug}.${dtype}.${shape}`;
}

export function load(slug: string, dtype: string, shape: keyof Starter): string | null {
  return stored.get(name(slug, dtype, shape));
}

/** Saves a draft. Text that equals the starter code is not stored. */
export function save(slug: string, dtype: string, shape: keyof Starter, text: string, starter: string): void {
  if (text === starter) stored.remove(name(slug, dtype, shape));
  else stored.set(name(slug, dtype, shape), text);
}

/** The last choices made for a problem. */
export interface Choice {
  dtype: string;
  shape: keyof Starter;
}

export function choice(slug: string): Partial<Choice> {
  try {
    return JSON.parse(stored.get(`choice.${slug}`) ?? "{}") as Partial<Choice>;
  } catch {
    return {};
  }
}

export function choose(slug: string, made: Choice): void {
  stored.set(`choice.${slug}`, JSON.stringify(made));
}
