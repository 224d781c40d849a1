/** Width of a plot's container. Plots are drawn at pixel size, so that text is not scaled. */

import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";

export function useWidth(first: number): [RefObject<HTMLDivElement>, number] {
  const box = useRef<HTMLDivElement>(null);
  const width = useSignal(first);
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const observer = new ResizeObserver(() => {
      width.value = Math.max(240, Math.floor(element.clientWidth));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [box, width.value];
}
