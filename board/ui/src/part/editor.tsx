/** The editor. It is loaded on demand and lives in a shadow root, where its styles need no inline style elements. */

import type { ComponentChild } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { EditorHandle, Surface } from "../surface";
import { Skeleton } from "./state";

interface Properties {
  initial: string;
  changed: (text: string) => void;
  cursor: (line: number) => void;
  ready: (handle: EditorHandle) => void;
}

export function Editor(properties: Properties): ComponentChild {
  const place = useRef<HTMLDivElement>(null);
  const latest = useRef(properties);
  latest.current = properties;
  useEffect(() => {
    let surface: Surface | null = null;
    let gone = false;
    void import("../surface").then(({ create }) => {
      if (gone || place.current === null) return;
      const root = place.current.shadowRoot ?? place.current.attachShadow({ mode: "open" });
      surface = create(root, latest.current.initial, {
        changed: (text) => latest.current.changed(text),
        cursor: (line) => latest.current.cursor(line),
      });
      place.current.dataset.ready = "true";
      latest.current.ready(surface);
    });
    return () => {
      gone = true;
      surface?.destroy();
    };
  }, []);
  return (
    <div class="editor-box">
      <div class="editor-waiting" aria-hidden="true">
        {[62, 48, 70, 30, 55].map((width) => (
          <Skeleton key={width} width={`${width}%`} />
        ))}
      </div>
      <div class="editor" ref={place} />
    </div>
  );
}
