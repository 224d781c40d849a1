/** Code that shows a part of the board in a frame on another site. */

import { useSignal } from "@preact/signals";
import type { Leaderboard } from "../contract";
import { frame } from "../frame";
import { Copy } from "./copy";
import { Dialog } from "./dialog";

export function EmbedLeaderboard({ board }: { board: Leaderboard }) {
  const open = useSignal(false);
  const query = new URLSearchParams({ gpu: board.gpu, dtype: board.dtype });
  const address = `${location.origin}/embed/leaderboard/${encodeURIComponent(board.problem)}?${query}`;
  return (
    <>
      <button type="button" class="button" onClick={() => (open.value = true)}>
        Embed
      </button>
      {open.value && (
        <Dialog title="Embed this leaderboard" close={() => (open.value = false)}>
          <div class="stack">
            <p>The frame shows the first ten ranks. It runs no scripts; add &amp;theme=dark or &amp;theme=light to fix its colours.</p>
            <Copy label="HTML" rows={4} text={frame(address, `Leaderboard of ${board.problem}`, 420)} />
            <div class="actions">
              <a class="button" href={address} target="_blank" rel="noopener">
                Open
              </a>
              <button type="button" class="button primary" onClick={() => (open.value = false)}>
                Close
              </button>
            </div>
          </div>
        </Dialog>
      )}
    </>
  );
}
