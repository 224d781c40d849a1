/** A button that opens a dialog with a link or code to take away. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { Dialog } from "./dialog";

interface Properties {
  label: string;
  title: string;
  /** Beside the button that closes the dialog. */
  actions: ComponentChildren;
  children: ComponentChildren;
}

export function LinkButton({ label, title, actions, children }: Properties) {
  const open = useSignal(false);
  const close = () => (open.value = false);
  return (
    <>
      <button type="button" class="button" onClick={() => (open.value = true)}>
        {label}
      </button>
      {open.value && (
        <Dialog title={title} close={close}>
          <div class="stack">
            {children}
            <div class="actions">
              {actions}
              <button type="button" class="button" onClick={close}>
                Close
              </button>
            </div>
          </div>
        </Dialog>
      )}
    </>
  );
}
