/** Follows a submission live: its state as a signal, across reloads and lost connections. */

import { type Signal, signal } from "@preact/signals";
import * as api from "./api";
import { type Endpoint, ROUTES } from "./contract";
import { advance, begin, type Run } from "./run";
import { follow } from "./sse";

export class Followed {
  readonly run: Signal<Run>;
  readonly connected = signal(true);
  readonly failure = signal("");
  private stopper: (() => void) | null = null;

  constructor(id: string, endpoint: Endpoint, position: number | null = null) {
    this.run = signal({ ...begin(id, endpoint), position });
    this.stopper = follow(api.at(ROUTES.submission_events, id), api.authorization, {
      event: (event) => {
        this.run.value = advance(this.run.value, event);
        return this.run.value.end !== null;
      },
      connected: (there) => {
        this.connected.value = there;
      },
      failed: (message) => {
        this.failure.value = message;
      },
      lastEvent: () => this.run.value.lastEvent,
    });
  }

  stop(): void {
    this.stopper?.();
    this.stopper = null;
  }
}
