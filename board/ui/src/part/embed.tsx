/** Code that shows a part of the board in a frame on another site. */

import type { Leaderboard } from "../contract";
import { frame } from "../frame";
import { Copy } from "./copy";
import { LinkButton } from "./link";

export function EmbedLeaderboard({ board }: { board: Leaderboard }) {
  const query = new URLSearchParams({ gpu: board.gpu, dtype: board.dtype });
  const address = `${location.origin}/embed/leaderboard/${encodeURIComponent(board.problem)}?${query}`;
  const actions = (
    <a class="button" href={address} target="_blank" rel="noopener">
      Open
    </a>
  );
  return (
    <LinkButton label="Embed" title="Embed this leaderboard" actions={actions}>
      <p>The frame shows the first ten ranks. It runs no scripts; add &amp;theme=dark or &amp;theme=light to fix its colours.</p>
      <Copy label="HTML" rows={4} text={frame(address, `Leaderboard of ${board.problem}`, 420)} />
    </LinkButton>
  );
}
