/** Editorial of a problem, and its editor for moderators. */

import { useSignal } from "@preact/signals";
import * as api from "../api";
import type { Editorial as Text } from "../contract";
import * as format from "../format";
import { useLoad } from "../load";
import { refused } from "../notice";
import { Empty, Refused, Skeleton } from "./state";
import { User } from "./user";

export function Editorial({ slug, solved }: { slug: string; solved: boolean }) {
  const load = useLoad(() => api.editorial(slug), [slug]);
  const shown = useSignal(false);
  const editing = useSignal(false);
  const now = load.now.value;
  if (now.value === null) {
    return now.state === "refused" ? <Refused refusal={now.refusal} again={load.again} /> : <Skeleton width="100%" height="8em" />;
  }
  const text = now.value;
  if (editing.value) {
    return (
      <Form
        slug={slug}
        text={text}
        done={() => {
          editing.value = false;
          load.again();
        }}
      />
    );
  }
  const edit = text.editable && (
    <button type="button" class="button" onClick={() => (editing.value = true)}>
      {text.user === null ? "Write the editorial" : "Edit"}
    </button>
  );
  if (text.user === null) return <Empty title="There is no editorial yet.">{edit}</Empty>;
  if (!solved && !shown.value) {
    return (
      <Empty title="The editorial gives the solution away.">
        <div class="row">
          <button type="button" class="button" onClick={() => (shown.value = true)}>
            Show it
          </button>
          {edit}
        </div>
      </Empty>
    );
  }
  return (
    <>
      <p class="small dim">
        by <User name={text.user} />, {format.ago(text.updated_at)}
      </p>
      {/* Safe: the server renders and sanitises it like a statement, and the policy refuses scripts. */}
      <div class="prose" dangerouslySetInnerHTML={{ __html: text.html }} />
      {edit && <p>{edit}</p>}
    </>
  );
}

function Form({ slug, text, done }: { slug: string; text: Text; done: () => void }) {
  const written = useSignal(text.markdown ?? "");
  const busy = useSignal(false);
  const save = async (event: Event) => {
    event.preventDefault();
    busy.value = true;
    try {
      await api.writeEditorial(slug, written.value);
      done();
    } catch (cause) {
      refused(cause);
    } finally {
      busy.value = false;
    }
  };
  return (
    <form class="comment-form" onSubmit={(event) => void save(event)}>
      <label>
        <span class="hidden-visually">Editorial</span>
        <textarea
          class="field mono"
          rows={18}
          placeholder="Markdown, with formulas between dollar signs. An empty text removes the editorial."
          value={written.value}
          onInput={(event) => (written.value = event.currentTarget.value)}
        />
      </label>
      <div class="row">
        <button type="submit" class="button primary" disabled={busy.value}>
          Save
        </button>
        <button type="button" class="button" onClick={done}>
          Cancel
        </button>
      </div>
    </form>
  );
}
