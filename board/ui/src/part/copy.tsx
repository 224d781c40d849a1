/** A text to take away: a read-only field with a button that copies it. */

import { tell } from "../notice";

export function Copy({ label, text, rows }: { label: string; text: string; rows?: number }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      tell("Copied.");
    } catch {
      // Browsers have no clipboard on plain HTTP addresses.
      tell("The browser refuses to copy; select the text instead.", { bad: true });
    }
  };
  return (
    <div class="copy">
      <label>
        <span class="small dim">{label}</span>
        {rows === undefined ? (
          <input class="field mono" readOnly value={text} onFocus={(event) => event.currentTarget.select()} />
        ) : (
          <textarea class="field mono" readOnly rows={rows} value={text} onFocus={(event) => event.currentTarget.select()} />
        )}
      </label>
      <button type="button" class="button" onClick={() => void copy()}>
        Copy
      </button>
    </div>
  );
}
