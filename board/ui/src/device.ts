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

/** Returns the devices that have rankings, GPUs first. */
export function boards(devices: DeviceInfo[]): { gpu: string; emulated: boolean }[] {
  const found = new Map<string, boolean>();
  for (const one of devices) found.set(one.gpu_type, (found.get(one.gpu_type) ?? true) && one.emulated);
  return [...found.entries()]
    .map(([gpu, emulated]) => ({ gpu, emulated }))
    .sort((one, two) => Number(one.emulated) - Number(two.emulated) || one.gpu.localeCompare(two.gpu));
}

/** Returns the software GPU that observes kernels: the chosen device if it is one, else one of the same model, else any; null if there is none. */
export function software(devices: DeviceInfo[], picked: DeviceInfo | null): DeviceInfo | null {
  const able = devices.filter((device) => device.emulated && device.state !== "offline" && device.state !== "draining");
  return (
    able.find((device) => device.gpu_type === picked?.gpu_type) ??
    able.find((device) => picked !== null && device.gpu_type.startsWith(picked.gpu_type)) ??
    able[0] ??
    null
  );
}
