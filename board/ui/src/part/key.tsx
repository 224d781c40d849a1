/** Dialog for the API key; shows the user it belongs to. */

import { useSignal } from "@preact/signals";
import { asking, key, remember } from "../account";
import * as api from "../api";
import { useLoad } from "../load";
import { tell } from "../notice";
import { Dialog } from "./dialog";

export function KeyDialog() {
  const text = useSignal(key.value);
  const who = useLoad(api.me, []).now.value;
  const save = (event: Event) => {
    event.preventDefault();
    remember(text.value);
    asking.value = false;
    tell(key.value === "" ? "The key was removed." : "The key is stored in this browser.");
  };
  return (
    <Dialog title="API key" close={() => (asking.value = false)}>
      <form onSubmit={save} class="stack">
        <p>
          {who.state === "here"
            ? `You are logged in as ${who.value.user}.`
            : who.state === "refused"
              ? "This board requires an API key."
              : "\u00a0"}{" "}
          <span class="dim">The operator of the board issues keys. They are stored only in this browser.</span>
        </p>
        {who.state === "here" && (
          <p>
            <a href={`/users/${encodeURIComponent(who.value.user)}`} onClick={() => (asking.value = false)}>
              Your profile
            </a>
            {who.value.authentication === "key" && (
              <>
                {", "}
                <a href="/account" onClick={() => (asking.value = false)}>
                  your account
                </a>
              </>
            )}
          </p>
        )}
        <label>
          <span class="hidden-visually">API key</span>
          <input
            class="field mono key-field"
            type="password"
            autocomplete="off"
            spellcheck={false}
            placeholder="rmr_…"
            value={text.value}
            onInput={(event) => (text.value = event.currentTarget.value)}
          />
        </label>
        <div class="actions">
          {key.value !== "" && (
            <button
              type="button"
              class="button"
              onClick={() => {
                remember("");
                asking.value = false;
              }}
            >
              Forget
            </button>
          )}
          <button type="submit" class="button primary">
            Keep
          </button>
        </div>
      </form>
    </Dialog>
  );
}
