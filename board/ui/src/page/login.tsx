/** Log-in: the choice of a provider, the way back from it, and login links. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { asking, changed, remember } from "../account";
import * as api from "../api";
import { sentence } from "../format";
import { begin, logOut, providers } from "../login";
import { me } from "../me";
import { tell } from "../notice";
import { Skeleton } from "../part/state";
import { returnPath } from "../return";
import { parameter, replace } from "../route";
import { useTitle } from "../title";

export function LoginPage() {
  useTitle("Log in");
  const back = returnPath(parameter("return"));
  const mine = me.value;
  if (mine !== null && mine.authentication === "login") {
    return (
      <Frame title="Log in">
        <p>
          You are logged in as <strong>{mine.user}</strong>.
        </p>
        <div class="row">
          <a class="button primary" href={back}>
            Continue
          </a>
          <button type="button" class="button" onClick={() => void logOut()}>
            Log out
          </button>
        </div>
      </Frame>
    );
  }
  return (
    <Frame title="Log in">
      {providers.value.map((provider) => (
        <button key={provider.key} type="button" class="button primary" onClick={() => void begin(provider.key, back)}>
          Log in with {provider.name}
        </button>
      ))}
      <button type="button" class="button" onClick={() => (asking.value = true)}>
        Use an API key
      </button>
      <p class="small dim">
        {providers.value.length > 0 && "The first login creates your account, if the operator of this board allows that. "}
        The operator can also send you a login link.
      </p>
    </Frame>
  );
}

/** The page that a provider sends the browser back to. */
export function CallbackPage({ provider }: { provider: string }) {
  useTitle("Log in");
  const refusal = useSignal<api.Refusal | null>(null);
  useEffect(() => {
    const given = new URLSearchParams(location.search);
    // The code works once, and does not stay in the address.
    history.replaceState(null, "", location.pathname);
    const part = (name: string) => given.get(name) ?? undefined;
    const finish = async () => {
      if (!given.has("state")) throw new api.Refusal(0, "This page finishes a login, but none came back here.");
      const done = await api.loginFinish({
        provider,
        state: part("state"),
        code: part("code"),
        iss: part("iss"),
        error: part("error"),
        error_description: part("error_description"),
      });
      // A key of another user would come first.
      if (!done.linked) remember("");
      changed();
      tell(
        done.linked
          ? "The login is linked to your account."
          : done.created
            ? `Your account was created. Your name here is ${done.user}.`
            : `You are logged in as ${done.user}.`,
      );
      replace(returnPath(done.return_to));
    };
    finish().catch((cause) => {
      refusal.value = cause instanceof api.Refusal ? cause : new api.Refusal(0, String(cause));
    });
  }, []);
  if (refusal.value === null) {
    return (
      <Frame title="Logging in">
        <Skeleton width="100%" height="5em" />
      </Frame>
    );
  }
  return <Failed refusal={refusal.value} />;
}

/** The page of a login link. Its secret follows the #, which browsers do not send. */
export function LinkPage() {
  useTitle("Log in");
  const token = useSignal("");
  const user = useSignal<string | null>(null);
  const refusal = useSignal<api.Refusal | null>(null);
  const busy = useSignal(false);
  const send = async (confirm: boolean) => {
    busy.value = true;
    try {
      const link = await api.loginLink(token.value, confirm);
      user.value = link.user;
      if (link.confirmed) {
        remember("");
        changed();
        tell(`You are logged in as ${link.user}.`);
        replace("/");
      }
    } catch (cause) {
      refusal.value = cause instanceof api.Refusal ? cause : new api.Refusal(0, String(cause));
    } finally {
      busy.value = false;
    }
  };
  useEffect(() => {
    const read = () => {
      const given = location.hash.slice(1);
      if (given === "" && token.value !== "") return;
      token.value = given;
      user.value = null;
      refusal.value = null;
      history.replaceState(null, "", location.pathname);
      void send(false);
    };
    read();
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, []);
  if (refusal.value !== null) return <Failed refusal={refusal.value} />;
  if (user.value === null) {
    return (
      <Frame title="Log in">
        <Skeleton width="100%" height="5em" />
      </Frame>
    );
  }
  return (
    <Frame title="Log in">
      <p>
        This link logs you in as <strong>{user.value}</strong>. It works once.
      </p>
      <button type="button" class="button primary" disabled={busy.value} onClick={() => void send(true)}>
        Log in as {user.value}
      </button>
    </Frame>
  );
}

function Failed({ refusal }: { refusal: api.Refusal }) {
  return (
    <Frame title="The login failed">
      <div class="state bad" role="alert">
        <strong>{sentence(refusal.message)}</strong>
        {refusal.details !== "" && <p>{sentence(refusal.details)}</p>}
      </div>
      <a class="button" href="/login">
        Back to the login page
      </a>
    </Frame>
  );
}

function Frame({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <main class="page login">
      <div class="page-head">
        <h1 tabIndex={-1}>{title}</h1>
      </div>
      <div class="card">
        <div class="body stack">{children}</div>
      </div>
    </main>
  );
}
