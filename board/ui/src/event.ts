/** One event of a submission, with every field that some event has. The status determines which of them are present. */

import type { EventRecord, Status } from "./contract";

type Names<T> = T extends unknown ? keyof T : never;
type Field<T, Name extends PropertyKey> = T extends unknown ? (Name extends keyof T ? T[Name] : never) : never;

export type BoardEvent = { status: Status } & {
  [Name in Exclude<Names<EventRecord>, "status">]?: Field<EventRecord, Name>;
};
