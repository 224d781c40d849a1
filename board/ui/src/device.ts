/** The available devices, and the one chosen last. */

import { signal } from "@preact/signals";
import type { DeviceInfo } from "./contract";
import { stored } from "./stored";

export const chosen = signal(stored.get("gpu") ?? "");

export function choose(gpu: string): void {
  chosen.value = gpu;
  stored.set("gpu", gpu);
}

/** Returns the chosen device if it exists, else one that is ready, else any. */
export function pick(devices: DeviceInfo[]): DeviceInfo | null {
  return (
    devices.find((device) => device.gpu_type === chosen.value) ??
    devices.find((device) => device.state === "ready") ??
    devices[0] ??
    null
  );
}
