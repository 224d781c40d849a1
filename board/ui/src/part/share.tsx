/** Share link of a submission: create, copy, embed, revoke. */

import { useSignal } from "@preact/signals";
import * as api from "../api";
import { frame } from "../frame";
import { tell } from "../notice";
import { Copy } from "./copy";
import { Dialog } from "./dialog";

export function ShareButton({ id, start }: { id: string; start: string | null }) {
  const open = useSignal(false);
  const token = useSignal(start);
  const busy = useSignal(false);
  const set = async (shared: boolean) => {
    busy.value = true;
    try {
      token.value = await api.share(id, shared);
      if (!shared) tell("The link no longer works.");
    } catch (cause) {
      tell((cause as Error).message, { bad: true });
    } finally {
      busy.value = false;
    }
  };
  return (
    <>
      <button type="button" class="button" onClick={() => (open.value = true)}>
        Share
      </button>
      {open.value && (
        <Dialog title="Share this submission" close={() => (open.value = false)}>
          <div class="stack">
            {token.value === null ? (
              <p>A link shows the source and the result to everyone who has it, without an account. You can revoke it.</p>
            ) : (
              <>
                <p>Everyone who has this link sees the source and the result.</p>
                <Copy label="Link" text={`${location.origin}/s/${token.value}`} />
                <Copy
                  label="HTML of a frame with the result"
                  rows={4}
                  text={frame(`${location.origin}/embed/result/${token.value}`, "Result of a submission", 200)}
                />
                <p class="small dim">The frame does not show the source, but it contains the link, which does.</p>
              </>
            )}
            <div class="actions">
              {token.value === null ? (
                <button type="button" class="button primary" disabled={busy.value} onClick={() => void set(true)}>
                  Create a link
                </button>
              ) : (
                <button type="button" class="button" disabled={busy.value} onClick={() => void set(false)}>
                  Revoke
                </button>
              )}
              <button type="button" class="button" onClick={() => (open.value = false)}>
                Close
              </button>
            </div>
          </div>
        </Dialog>
      )}
    </>
  );
}
