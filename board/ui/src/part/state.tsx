/** Placeholders of a page: loading, empty or error. */

import type { ComponentChildren } from "preact";
import { asking } from "../account";
import type { Refusal } from "../api";
import { sentence } from "../format";
import { providers } from "../login";
import { loginAddress } from "../return";
import { path } from "../route";

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="state">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

export function Refused({ refusal, again }: { refusal: Refusal; again?: () => void }) {
  const locked = refusal.status === 401 || refusal.status === 403;
  return (
    <div class="state bad" role="alert">
      <strong>{sentence(refusal.message)}</strong>
      {refusal.details !== "" && <p>{sentence(refusal.details)}</p>}
      <div class="row">
        {refusal.status === 401 && providers.value.length > 0 && (
          <a class="button primary" href={loginAddress(path.value + location.search)}>
            Log in
          </a>
        )}
        {locked && (
          <button type="button" class="button" onClick={() => (asking.value = true)}>
            Enter an API key
          </button>
        )}
        {again && (
          <button type="button" class="button" onClick={again}>
            Try again
          </button>
        )}
      </div>
    </div>
  );
}

export function Skeleton({ width, height }: { width: string; height?: string }) {
  return <span class="skeleton" aria-hidden="true" style={{ width, ...(height ? { height } : {}) }} />;
}

/** Placeholder rows, as tall as the rows that will replace them. */
export function SkeletonRows({ rows, columns }: { rows: number; columns: number }) {
  return (
    <>
      {Array.from({ length: rows }, (_, row) => (
        <tr key={row} aria-hidden="true">
          {Array.from({ length: columns }, (_, column) => (
            <td key={column}>
              <Skeleton width={column === 0 ? `${45 + ((row * 17) % 40)}%` : "3.5em"} />
            </td>
          ))}
        </tr>
      ))}
    </>
  );
}
