/** The application frame: the top bar, the page for the current address, dialogs and notices. */

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { asking, key } from "./account";
import { offer, shortcuts } from "./keys";
import mark from "./mark.svg";
import { dismiss, notices } from "./notice";
import { BatchPage } from "./page/batch";
import { ComparePage } from "./page/compare";
import { logOut, providers } from "./login";
import { me } from "./me";
import { AccountPage } from "./page/account";
import { LeaderboardPage } from "./page/leaderboard";
import { CallbackPage, LinkPage, LoginPage } from "./page/login";
import { ProblemPage } from "./page/problem";
import { ProblemsPage } from "./page/problems";
import { QueuePage } from "./page/queue";
import { RankingPage } from "./page/ranking";
import { SharedPage } from "./page/shared";
import { SubmissionPage } from "./page/submission";
import { SubmissionsPage } from "./page/submissions";
import { UserPage } from "./page/user";
import { Dialog } from "./part/dialog";
import { Icon } from "./part/icon";
import { KeyDialog } from "./part/key";
import { Empty } from "./part/state";
import { loginAddress } from "./return";
import { navigate, path, type Route, route } from "./route";
import { isDark, toggle } from "./theme";

const helping = signal(false);

export function App() {
  useEffect(
    () =>
      offer([
        { keys: "?", label: "Show these shortcuts", run: () => (helping.value = true) },
        { keys: "g p", label: "Go to the problems", run: () => navigate("/") },
        { keys: "g r", label: "Go to the ranking", run: () => navigate("/ranking") },
        { keys: "g s", label: "Go to the submissions", run: () => navigate("/submissions") },
        { keys: "g q", label: "Go to the queue", run: () => navigate("/queue") },
        { keys: "t", label: "Switch between dark and light", run: toggle },
      ]),
    [],
  );
  const at = route.value;
  return (
    <>
      <a class="skip" href="#main" onClick={toMain}>
        Skip to the page
      </a>
      <Bar at={at} />
      <Page at={at} />
      {helping.value && <Help />}
      {asking.value && <KeyDialog />}
      <div class="notices" role="status">
        {notices.value.map((notice) => (
          <div key={notice.id} class={notice.bad ? "notice bad" : "notice"}>
            <span>{notice.text}</span>
            {notice.action && (
              <button
                type="button"
                onClick={() => {
                  notice.action?.run();
                  dismiss(notice.id);
                }}
              >
                {notice.action.label}
              </button>
            )}
            <button type="button" aria-label="Dismiss" onClick={() => dismiss(notice.id)}>
              <Icon name="cross" />
            </button>
          </div>
        ))}
      </div>
    </>
  );
}

function toMain(event: Event): void {
  event.preventDefault();
  document.querySelector<HTMLElement>("main h1")?.focus();
}

function Bar({ at }: { at: Route }) {
  const current = (pages: Route["page"][]) => (pages.includes(at.page) ? "page" : undefined);
  const dark = isDark();
  return (
    <header class="bar">
      <a class="home" href="/" aria-label="Remora board">
        <img src={mark} alt="" width="26" height="26" />
        <span>Remora</span>
      </a>
      <nav aria-label="Pages">
        <a href="/" aria-current={current(["problems", "problem"])}>
          Problems
        </a>
        <a href="/ranking" aria-current={current(["ranking", "leaderboard"])}>
          Ranking
        </a>
        <a href="/submissions" aria-current={current(["submissions", "submission", "batch", "compare"])}>
          Submissions
        </a>
        <a href="/queue" aria-current={current(["queue"])}>
          Queue
        </a>
      </nav>
      <span class="space" />
      {me.value !== null && (
        <a
          class="button plain profile-link"
          href={`/users/${encodeURIComponent(me.value.user)}`}
          title="Your profile"
          aria-current={at.page === "user" && at.name === me.value.user ? "page" : undefined}
        >
          <Icon name="user" />
          <span class="user-name">{me.value.user}</span>
          <span class="hidden-visually">Your profile</span>
        </a>
      )}
      <Access at={at} />
      <button
        type="button"
        class="button plain icon"
        aria-label={dark ? "Light colours" : "Dark colours"}
        title={dark ? "Light colours (t)" : "Dark colours (t)"}
        onClick={toggle}
      >
        <Icon name={dark ? "sun" : "moon"} />
      </button>
      <button
        type="button"
        class="button plain icon shortcuts"
        aria-label="Keyboard shortcuts"
        title="Keyboard shortcuts (?)"
        onClick={() => (helping.value = true)}
      >
        <Icon name="help" />
      </button>
    </header>
  );
}

/** The way in: a login if the board has providers, an API key otherwise. A logged-in user manages keys and logs out. */
function Access({ at }: { at: Route }) {
  if (me.value?.authentication === "login") {
    return (
      <>
        <a class="button plain" href="/account" title="Account and API keys" aria-current={at.page === "account" ? "page" : undefined}>
          <Icon name="key" />
          <span class="key-name">Account</span>
          <span class="hidden-visually">Account and API keys</span>
        </a>
        <button type="button" class="button plain log-out" onClick={() => void logOut()}>
          Log out
        </button>
      </>
    );
  }
  if (providers.value.length > 0 && me.value === null && key.value === "") {
    return (
      <a class="button" href={loginAddress(path.value + location.search)}>
        Log in
      </a>
    );
  }
  return (
    <button type="button" class="button plain" onClick={() => (asking.value = true)} title="API key">
      <Icon name="key" />
      <span class="key-name">{key.value === "" ? "API key" : key.value.split("_").slice(0, 2).join("_")}</span>
      <span class="hidden-visually">{key.value === "" ? "Enter an API key" : "Change the API key"}</span>
    </button>
  );
}

function Page({ at }: { at: Route }) {
  switch (at.page) {
    case "problems":
      return <ProblemsPage />;
    case "problem":
      return <ProblemPage key={at.slug} slug={at.slug} />;
    case "submissions":
      return <SubmissionsPage />;
    case "submission":
      return <SubmissionPage key={at.id} id={at.id} />;
    case "batch":
      return <BatchPage />;
    case "compare":
      return <ComparePage />;
    case "leaderboard":
      return <LeaderboardPage key={at.slug} slug={at.slug} />;
    case "ranking":
      return <RankingPage />;
    case "user":
      return <UserPage key={at.name} name={at.name} />;
    case "shared":
      return <SharedPage key={at.token} token={at.token} />;
    case "queue":
      return <QueuePage />;
    case "login":
      return <LoginPage />;
    case "login-callback":
      return <CallbackPage key={at.provider} provider={at.provider} />;
    case "login-link":
      return <LinkPage />;
    case "account":
      return <AccountPage />;
    case "missing":
      return (
        <main class="page">
          <h1 tabIndex={-1}>Page not found</h1>
          <Empty title="There is no page at this address.">
            <a href="/">All problems</a>
          </Empty>
        </main>
      );
  }
}

function Help() {
  const list = new Map(shortcuts.value.map((shortcut) => [shortcut.keys, shortcut.label]));
  return (
    <Dialog title="Keyboard" close={() => (helping.value = false)}>
      <dl>
        {[...list.entries()].map(([keys, label]) => (
          <>
            <dt key={keys}>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{label}</dd>
          </>
        ))}
        <dt>
          <kbd>Esc</kbd> <kbd>Tab</kbd>
        </dt>
        <dd>Leave the editor</dd>
      </dl>
      <div class="actions">
        <button type="button" class="button" onClick={() => (helping.value = false)}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
