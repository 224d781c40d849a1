/** Server-sent events over `fetch`, because EventSource cannot send the Authorization header that some boards require. */

import type { BoardEvent } from "./event";

export interface Frame {
  event: string;
  id: string | null;
  data: string;
}

/** Incremental parser: takes text as it arrives and returns complete frames. */
export class Frames {
  private rest = "";

  push(text: string): Frame[] {
    this.rest += text;
    const frames: Frame[] = [];
    for (;;) {
      const end = /\r?\n\r?\n/.exec(this.rest);
      if (end === null) return frames;
      const frame = parse(this.rest.slice(0, end.index));
      this.rest = this.rest.slice(end.index + end[0].length);
      if (frame !== null) frames.push(frame);
    }
  }
}

function parse(block: string): Frame | null {
  let event = "message";
  let id: string | null = null;
  const data: string[] = [];
  for (const line of block.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon === 0) continue;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") event = value;
    else if (field === "id") id = value;
    else if (field === "data") data.push(value);
  }
  return data.length === 0 ? null : { event, id, data: data.join("\n") };
}

export interface Follower {
  /** Handles an event; returns whether it ends the stream. */
  event(event: BoardEvent): boolean;
  /** Reports whether the stream is connected. Reconnecting is automatic. */
  connected(there: boolean): void;
  /** Reports a permanent failure of the stream. */
  failed(message: string): void;
  /** Returns the number of the last event, to continue after it. */
  lastEvent(): number;
}

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 8000;

/** Timeout of a silent stream; longer than two heartbeats of the server. */
const SILENCE_MS = 40_000;

/** Follows a stream until its last event and reconnects if necessary. Returns a function that stops it. */
export function follow(url: string, headers: () => Record<string, string>, follower: Follower): () => void {
  const stop = new AbortController();
  void loop();
  return () => stop.abort();

  async function loop(): Promise<void> {
    let pause = FIRST_PAUSE_MS;
    while (!stop.signal.aborted) {
      const outcome = await once();
      if (outcome === "done" || stop.signal.aborted) return;
      follower.connected(false);
      if (outcome === "progress") pause = FIRST_PAUSE_MS;
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(LONGEST_PAUSE_MS, pause * 2);
    }
  }

  async function once(): Promise<"done" | "progress" | "nothing"> {
    const attempt = new AbortController();
    const abort = () => attempt.abort();
    stop.signal.addEventListener("abort", abort);
    let silence = setTimeout(abort, SILENCE_MS);
    let progress = false;
    try {
      const last = follower.lastEvent();
      const response = await fetch(url, {
        headers: {
          accept: "text/event-stream",
          ...headers(),
          ...(last > 0 ? { "last-event-id": String(last) } : {}),
        },
        cache: "no-store",
        signal: attempt.signal,
      });
      if (!response.ok || response.body === null) {
        if (response.status >= 400 && response.status < 500 && response.status !== 429) {
          const answer: unknown = await response.json().catch(() => null);
          const said = (answer as { error?: unknown } | null)?.error;
          follower.failed(typeof said === "string" ? said : `the server answered ${response.status}`);
          return "done";
        }
        return "nothing";
      }
      follower.connected(true);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const frames = new Frames();
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return progress ? "progress" : "nothing";
        clearTimeout(silence);
        silence = setTimeout(abort, SILENCE_MS);
        for (const frame of frames.push(value)) {
          if (frame.event === "heartbeat") continue;
          const event = JSON.parse(frame.data) as BoardEvent;
          if (frame.id !== null && /^\d+$/.test(frame.id)) event.id = Number(frame.id);
          progress = true;
          if (follower.event(event)) return "done";
        }
      }
    } catch {
      return progress ? "progress" : "nothing";
    } finally {
      clearTimeout(silence);
      stop.signal.removeEventListener("abort", abort);
      attempt.abort();
    }
  }
}
