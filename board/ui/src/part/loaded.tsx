/** A page about one fetched value: its heading, and below it the value, a placeholder while it loads, or why there is none. */

import type { ComponentChildren } from "preact";
import type { Load } from "../load";
import { Refused, Skeleton } from "./state";

interface Parts<T> {
  title: string;
  load: Load<T>;
  /** The line below the heading. */
  about: (value: T) => ComponentChildren;
  children: (value: T) => ComponentChildren;
}

export function LoadedPage<T>({ title, load, about, children }: Parts<T>) {
  const now = load.now.value;
  return (
    <main class="page">
      <div class="page-head">
        <div>
          <h1 tabIndex={-1}>{title}</h1>
          {now.value !== null && <p>{about(now.value)}</p>}
        </div>
      </div>
      {now.value === null ? (
        <div class="card">
          {now.state === "refused" ? <Refused refusal={now.refusal} again={load.again} /> : <Skeleton width="100%" height="14em" />}
        </div>
      ) : (
        children(now.value)
      )}
    </main>
  );
}
