/** Share link of a submission: create, copy, embed, revoke. */

import { useSignal } from "@preact/signals";
import * as api from "../api";
import { frame } from "../frame";
import { refused, tell } from "../notice";
import { Copy } from "./copy";
import { LinkButton } from "./link";

export function ShareButton({ id, start }: { id: string; start: string | null }) {
  const token = useSignal(start);
  const busy = useSignal(false);
  const set = async (shared: boolean) => {
    busy.value = true;
    try {
      token.value = await api.share(id, shared);
      if (!shared) tell("The link no longer works.");
    } catch (cause) {
      refused(cause);
    } finally {
      busy.value = false;
    }
  };
  const actions =
    token.value === null ? (
      <button type="button" class="button primary" disabled={busy.value} onClick={() => void set(true)}>
        Create a link
      </button>
    ) : (
      <button type="button" class="button" disabled={busy.value} onClick={() => void set(false)}>
        Revoke
      </button>
    );
  return (
    <LinkButton label="Share" title="Share this submission" actions={actions}>
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
    </LinkButton>
  );
}
