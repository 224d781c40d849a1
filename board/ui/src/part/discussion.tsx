/** Discussion of a problem: comments in Markdown, which the server renders and sanitises. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { identity } from "../account";
import * as api from "../api";
import type { Comment, Discussion as Page } from "../contract";
import * as format from "../format";
import { me } from "../me";
import { refused } from "../notice";
import { loginAddress } from "../return";
import { path } from "../route";
import { Empty, Refused, Skeleton } from "./state";
import { User } from "./user";

export function Discussion({ slug }: { slug: string }) {
  const page = useSignal<Page | null>(null);
  const older = useSignal<Comment[]>([]);
  const refusal = useSignal<api.Refusal | null>(null);
  const load = async (before?: string) => {
    try {
      const next = await api.discussion(slug, before);
      older.value = before === undefined ? [] : [...older.value, ...(page.value?.comments ?? [])];
      page.value = next;
      refusal.value = null;
    } catch (cause) {
      refusal.value = cause instanceof api.Refusal ? cause : new api.Refusal(0, String(cause));
    }
  };
  useEffect(() => {
    page.value = null;
    void load();
  }, [slug, identity.value]);
  const remove = async (id: string) => {
    if (!confirm("Remove this comment? This cannot be undone.")) return;
    try {
      await api.removeComment(id);
      await load();
    } catch (cause) {
      refused(cause);
    }
  };
  if (page.value === null) {
    return refusal.value !== null ? (
      <Refused refusal={refusal.value} again={() => void load()} />
    ) : (
      <Skeleton width="100%" height="8em" />
    );
  }
  const { next, limit_bytes } = page.value;
  const shown = [...older.value, ...page.value.comments];
  return (
    <>
      {me.value === null ? (
        <p>
          <a class="button" href={loginAddress(path.value + location.search)}>
            Log in to comment
          </a>
        </p>
      ) : (
        <Form slug={slug} limit={limit_bytes} done={() => void load()} />
      )}
      {shown.length === 0 ? (
        <Empty title="No comments yet." />
      ) : (
        <ol class="comments" aria-label="Comments, newest first">
          {shown.map((comment) => (
            <li key={comment.id} class="comment">
              <header>
                <strong>
                  <User name={comment.user} />
                </strong>
                <span class="small dim">{format.ago(comment.created_at)}</span>
                <span class="space" />
                {comment.removable && (
                  <button type="button" class="button small plain" onClick={() => void remove(comment.id)}>
                    Remove
                  </button>
                )}
              </header>
              {/* Safe: the server renders Markdown to a few elements without attributes, and the policy refuses scripts. */}
              <div class="prose" dir="auto" dangerouslySetInnerHTML={{ __html: comment.html }} />
            </li>
          ))}
        </ol>
      )}
      {next !== null && (
        <button type="button" class="button" onClick={() => void load(next)}>
          Older
        </button>
      )}
    </>
  );
}

function Form({ slug, limit, done }: { slug: string; limit: number; done: () => void }) {
  const text = useSignal("");
  const busy = useSignal(false);
  const size = format.utf8(text.value.trim());
  const send = async (event: Event) => {
    event.preventDefault();
    busy.value = true;
    try {
      await api.comment(slug, text.value);
      text.value = "";
      done();
    } catch (cause) {
      refused(cause);
    } finally {
      busy.value = false;
    }
  };
  return (
    <form class="comment-form" onSubmit={(event) => void send(event)}>
      <label>
        <span class="hidden-visually">Comment</span>
        <textarea
          class="field"
          placeholder="A question or a hint. Markdown; please mark what gives a solution away."
          value={text.value}
          onInput={(event) => (text.value = event.currentTarget.value)}
        />
      </label>
      <div class="row">
        <button type="submit" class="button primary" disabled={busy.value || size === 0 || size > limit}>
          Comment
        </button>
        {size > limit / 2 && (
          <span class={size > limit ? "small chip bad" : "small dim"}>
            {format.whole(size)} of {format.whole(limit)} bytes
          </span>
        )}
      </div>
    </form>
  );
}
