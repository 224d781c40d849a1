/** Buttons that choose the device of a ranking. */

import type { DeviceInfo } from "../contract";
import { boards } from "../device";
import { amend } from "../route";

export function Devices({ devices, gpu }: { devices: DeviceInfo[]; gpu: string }) {
  return (
    <div class="segments" role="group" aria-label="Device">
      {boards(devices).map((one) => (
        <button type="button" key={one.gpu} aria-pressed={gpu === one.gpu} onClick={() => amend({ gpu: one.gpu })}>
          {one.gpu}
          {one.emulated ? " (emulated)" : ""}
        </button>
      ))}
    </div>
  );
}
