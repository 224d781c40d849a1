/** HTTP client of the server. Every error response becomes a [`Refusal`] with the server's message. */

import { key } from "./account";
import {
  type Account,
  type Comparison,
  type DeviceInfo,
  type Devices,
  type Discussion,
  type Editorial,
  type Endpoint,
  type Estimate,
  type Isa,
  type IsaListing,
  type Leaderboard,
  type LoginDone,
  type LoginLink,
  type LoginOptions,
  type LoginStart,
  type Me,
  type NewKey,
  type ProblemDetail,
  type ProblemSummary,
  type Problems,
  type Profile,
  type Queue,
  type QueueEntry,
  type Ranking,
  ROUTES,
  type Share,
  type SubmissionDetail,
  type Submissions,
  type SubmitBody,
  type Submitted,
  type Batch,
  type BatchBody,
} from "./contract";

export class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly details: string = "",
  ) {
    super(message);
  }
}

export function authorization(): Record<string, string> {
  return key.value === "" ? {} : { authorization: `Bearer ${key.value}` };
}

async function ask<T>(path: string, body?: unknown): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers: { ...authorization(), ...(body === undefined ? {} : { "content-type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Refusal(0, "The server cannot be reached.", "It may be restarting; nothing that was submitted is lost.");
  }
  const text = await response.text();
  let answer: unknown;
  try {
    answer = text === "" ? null : JSON.parse(text);
  } catch {
    throw new Refusal(response.status, `The server answered ${response.status} with a body that is not JSON.`);
  }
  if (!response.ok) {
    const said = answer as { error?: unknown; details?: unknown } | null;
    const message = typeof said?.error === "string" ? said.error : `the server answered ${response.status}`;
    const after = response.headers.get("retry-after");
    const details = typeof said?.details === "string" ? said.details : "";
    throw new Refusal(response.status, message, after === null ? details : `${details} Try again in ${after} s.`.trim());
  }
  return answer as T;
}

/** Downloads a file. */
export async function file(path: string): Promise<Blob> {
  const response = await fetch(path, { headers: authorization() }).catch(() => null);
  if (response === null || !response.ok) throw new Refusal(response?.status ?? 0, "The file cannot be downloaded.");
  return response.blob();
}

function query(values: Record<string, string | number | undefined>): string {
  const set = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== "") set.set(name, String(value));
  }
  const text = set.toString();
  return text === "" ? "" : `?${text}`;
}

/** Returns the address of a route for one submission or problem. */
export function at(route: string, name: string): string {
  return route.replace(/\{\w+\}/, encodeURIComponent(name));
}

export const problems = async (): Promise<ProblemSummary[]> => (await ask<Problems>(ROUTES.problems)).problems;

export const problem = (slug: string): Promise<ProblemDetail> => ask(at(ROUTES.problem, slug));

export const submitBatch = (body: BatchBody): Promise<Batch> => ask(ROUTES.batches, body);

export const submit = (body: SubmitBody): Promise<Submitted> => ask(ROUTES.submissions, body);

export interface Filter {
  problem?: string;
  status?: string;
  gpu?: string;
  mine?: string;
  user?: string;
  limit?: number;
  before?: string;
}

export const submissions = (filter: Filter): Promise<Submissions> => ask(`${ROUTES.submissions}${query({ ...filter })}`);

export const submission = (id: string): Promise<SubmissionDetail> => ask(at(ROUTES.submission, id));

export const cancel = (id: string): Promise<unknown> => ask(at(ROUTES.submission_cancel, id), {});

export const publish = (id: string, open: boolean): Promise<unknown> => ask(at(ROUTES.submission_public, id), { public: open });

export const isa = async (id: string): Promise<IsaListing[]> => (await ask<Isa>(at(ROUTES.submission_isa, id))).kernels;

export const leaderboard = (slug: string, gpu: string, dtype: string): Promise<Leaderboard> =>
  ask(`${at(ROUTES.leaderboard, slug)}${query({ gpu, dtype })}`);

export const devices = async (): Promise<DeviceInfo[]> => (await ask<Devices>(ROUTES.devices)).devices;

export const estimate = (problem: string, gpu_type: string, endpoint: Endpoint): Promise<Estimate> =>
  ask(ROUTES.estimate, { problem, gpu_type, endpoint });

export const queue = async (): Promise<QueueEntry[]> => (await ask<Queue>(ROUTES.queue)).entries;

export const compare = async (ids: string[]): Promise<SubmissionDetail[]> =>
  (await ask<Comparison>(`${ROUTES.compare}?ids=${ids.map(encodeURIComponent).join(",")}`)).submissions;

export const me = (): Promise<Me> => ask(ROUTES.me);

export const loginOptions = (): Promise<LoginOptions> => ask(ROUTES.login);

export const loginStart = (provider: string, return_to: string, link: boolean): Promise<LoginStart> =>
  ask(ROUTES.login_start, { provider, return_to, link });

/** What a provider added to the callback address. */
export interface Callback {
  provider: string;
  state?: string;
  code?: string;
  iss?: string;
  error?: string;
  error_description?: string;
}

export const loginFinish = (callback: Callback): Promise<LoginDone> => ask(ROUTES.login_finish, callback);

export const loginLink = (token: string, confirm: boolean): Promise<LoginLink> => ask(ROUTES.login_link, { token, confirm });

export const logout = (everywhere: boolean): Promise<unknown> => ask(ROUTES.logout, { everywhere });

export const account = (): Promise<Account> => ask(ROUTES.account);

export const createKey = (): Promise<NewKey> => ask(ROUTES.account_keys, {});

export const revokeKey = (prefix: string): Promise<unknown> => ask(ROUTES.account_key_revoke, { prefix });

export const unlink = (provider: string): Promise<unknown> => ask(ROUTES.account_unlink, { provider });

export const ranking = (gpu: string): Promise<Ranking> => ask(`${ROUTES.ranking}${query({ gpu })}`);

export const profile = (name: string): Promise<Profile> => ask(at(ROUTES.user, name));

export const share = async (id: string, shared: boolean): Promise<string | null> =>
  (await ask<Share>(at(ROUTES.submission_share, id), { shared })).token;

export const sharedSubmission = (token: string): Promise<SubmissionDetail> => ask(at(ROUTES.shared, token));

export const sharedIsa = async (token: string): Promise<IsaListing[]> =>
  (await ask<Isa>(at(ROUTES.shared_isa, token))).kernels;

export const discussion = (slug: string, before?: string): Promise<Discussion> =>
  ask(`${at(ROUTES.discussion, slug)}${query({ before })}`);

export const comment = (slug: string, markdown: string): Promise<unknown> => ask(at(ROUTES.discussion, slug), { markdown });

export const removeComment = (id: string): Promise<unknown> => ask(at(ROUTES.comment_remove, id), {});

export const editorial = (slug: string): Promise<Editorial> => ask(at(ROUTES.editorial, slug));

export const writeEditorial = (slug: string, markdown: string): Promise<Editorial> =>
  ask(at(ROUTES.editorial, slug), { markdown });
