/** Title of the browser tab. */

import { useEffect } from "preact/hooks";

export function useTitle(text: string): void {
  useEffect(() => {
    document.title = text === "" ? "Remora board" : `${text} · Remora board`;
  }, [text]);
}
