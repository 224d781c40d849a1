/** Button that submits one source to several devices. */

import { useSignal } from "@preact/signals";
import * as api from "../api";
import type { DeviceInfo, SubmitBody } from "../contract";
import * as format from "../format";
import { refused } from "../notice";
import { navigate } from "../route";
import { Dialog } from "./dialog";
import { Emulated } from "./status";

interface Properties {
  devices: DeviceInfo[];
  /** Number of GPUs that the problem needs. */
  gpus: number;
  disabled: boolean;
  /** Returns the submission without its device; null if there is none. */
  body: () => SubmitBody | null;
}

export function BatchButton({ devices, gpus, disabled, body }: Properties) {
  const open = useSignal(false);
  const busy = useSignal(false);
  const picked = useSignal<string[]>([]);
  const able = devices.filter((one) => one.state !== "offline" && one.gpus >= gpus);
  if (able.length < 2) return null;
  const show = () => {
    picked.value = able.map((one) => one.gpu_type);
    open.value = true;
  };
  const toggle = (gpu: string) => {
    const has = picked.value.includes(gpu);
    picked.value = has ? picked.value.filter((one) => one !== gpu) : [...picked.value, gpu];
  };
  const submit = async () => {
    const submission = body();
    if (submission === null) return;
    busy.value = true;
    try {
      const batch = await api.submitBatch({ ...submission, gpu_types: picked.value });
      navigate(batch.page);
    } catch (cause) {
      refused(cause);
    } finally {
      busy.value = false;
    }
  };
  return (
    <>
      <button type="button" class="button plain" disabled={disabled} title="Submit to several devices" onClick={show}>
        Devices…
      </button>
      {open.value && (
        <Dialog title="Submit to several devices" close={() => (open.value = false)}>
          <div class="stack">
            {able.map((one) => (
              <label key={one.gpu_type} class="row">
                <input type="checkbox" checked={picked.value.includes(one.gpu_type)} onChange={() => toggle(one.gpu_type)} />
                {one.gpu_type} {one.emulated && <Emulated />}
                <span class="small dim">{one.price_per_hour > 0 ? `${format.money(one.price_per_hour)} per hour` : "free"}</span>
              </label>
            ))}
            <div class="actions">
              <button type="button" class="button" onClick={() => (open.value = false)}>
                Close
              </button>
              <button
                type="button"
                class="button primary"
                disabled={busy.value || picked.value.length === 0}
                onClick={() => void submit()}
              >
                Submit to {picked.value.length} {picked.value.length === 1 ? "device" : "devices"}
              </button>
            </div>
          </div>
        </Dialog>
      )}
    </>
  );
}
