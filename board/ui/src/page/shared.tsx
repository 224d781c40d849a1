/** The submission of a share link. */

import * as api from "../api";
import { useLoad } from "../load";
import { Refused, Skeleton } from "../part/state";
import { useTitle } from "../title";
import { Loaded } from "./submission";

const REFRESH_MS = 5000;

export function SharedPage({ token }: { token: string }) {
  const load = useLoad(() => api.sharedSubmission(token), [token], REFRESH_MS);
  const now = load.now.value;
  useTitle(now.value === null ? "Shared submission" : `${now.value.title}, shared`);
  if (now.value === null) {
    return (
      <main class="page">
        <h1 tabIndex={-1}>Shared submission</h1>
        <div class="card">
          {now.state === "refused" ? <Refused refusal={now.refusal} again={load.again} /> : <Skeleton width="100%" height="20em" />}
        </div>
      </main>
    );
  }
  const source = { detail: now.value, isa: () => api.sharedIsa(token), live: false };
  return <Loaded source={source} again={load.again} />;
}
