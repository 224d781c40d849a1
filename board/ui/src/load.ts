/** State of a fetched value: loading, here, or refused. */

import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { identity } from "./account";
import { Refusal } from "./api";

export type Loaded<T> =
  | { state: "loading"; value: T | null }
  | { state: "here"; value: T }
  | { state: "refused"; value: T | null; refusal: Refusal };

export interface Load<T> {
  now: Signal<Loaded<T>>;
  again: () => void;
}

/** Fetches again when `on` or the user changes. The previous value stays while the next one loads. */
export function useLoad<T>(fetch: () => Promise<T>, on: unknown[], everyMs?: number): Load<T> {
  const now = useSignal<Loaded<T>>({ state: "loading", value: null });
  const turn = useSignal(0);
  const account = identity.value;
  useEffect(() => {
    now.value = { state: "loading", value: null };
  }, [...on, account]);
  useEffect(() => {
    let current = true;
    const ask = async () => {
      try {
        const value = await fetch();
        if (current) now.value = { state: "here", value };
      } catch (cause) {
        if (!current) return;
        const refusal = cause instanceof Refusal ? cause : new Refusal(0, String(cause));
        now.value = { state: "refused", value: now.value.value, refusal };
      }
    };
    void ask();
    const timer =
      everyMs === undefined
        ? undefined
        : setInterval(() => {
            if (document.visibilityState === "visible") void ask();
          }, everyMs);
    return () => {
      current = false;
      clearInterval(timer);
    };
  }, [...on, account, turn.value]);
  return {
    now,
    again: () => {
      turn.value += 1;
    },
  };
}
