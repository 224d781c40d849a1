/** The user's own account: API keys, linked login providers, and browsers that are logged in. */

import { useSignal } from "@preact/signals";
import * as api from "../api";
import type { Account, AccountKey, LinkedProvider } from "../contract";
import * as format from "../format";
import { useLoad } from "../load";
import { begin, logOut } from "../login";
import { tell } from "../notice";
import { Copy } from "../part/copy";
import { LoadedPage } from "../part/loaded";
import { Empty } from "../part/state";
import { useTitle } from "../title";

export function AccountPage() {
  useTitle("Account");
  const load = useLoad(api.account, []);
  const about = ({ user }: Account) => (
    <>
      You are <a href={`/users/${encodeURIComponent(user)}`}>{user}</a>.
    </>
  );
  return (
    <LoadedPage title="Account" load={load} about={about}>
      {(account) => <Loaded account={account} again={load.again} />}
    </LoadedPage>
  );
}

function Loaded({ account, again }: { account: Account; again: () => void }) {
  const made = useSignal("");
  const act = async (action: () => Promise<unknown>) => {
    try {
      await action();
      again();
    } catch (cause) {
      tell(format.sentence((cause as Error).message), { bad: true });
    }
  };
  const create = () =>
    act(async () => {
      made.value = (await api.createKey()).key;
    });
  const revoke = (prefix: string) => {
    if (confirm(`Revoke the key rmr_${prefix}? Programs that use it stop working.`)) void act(() => api.revokeKey(prefix));
  };
  return (
    <div class="stack">
      <section class="card" aria-labelledby="keys">
        <header>
          <h2 id="keys">API keys</h2>
          {account.manages_keys && (
            <button type="button" class="button" onClick={() => void create()}>
              Create a key
            </button>
          )}
        </header>
        {made.value !== "" && (
          <div class="body">
            <Copy label="The new key. It is shown once." text={made.value} />
          </div>
        )}
        {account.keys.length === 0 ? (
          <Empty title="No keys. Programs such as remora submit need one." />
        ) : (
          <Keys list={account.keys} revoke={account.manages_keys ? revoke : undefined} />
        )}
        {!account.manages_keys && <p class="body small dim">Keys are created and revoked in a browser that is logged in.</p>}
      </section>
      {account.providers.length > 0 && (
        <section class="card" aria-labelledby="providers">
          <header>
            <h2 id="providers">Logins</h2>
          </header>
          <Providers list={account.providers} unlink={(key) => void act(() => api.unlink(key))} />
        </section>
      )}
      <section class="card" aria-labelledby="browsers">
        <header>
          <h2 id="browsers">Browsers</h2>
        </header>
        <div class="body stack">
          <p>
            {account.browsers === 0 ? "No browser is" : account.browsers === 1 ? "One browser is" : `${account.browsers} browsers are`} logged
            in as you.
          </p>
          {account.manages_keys && (
            <div class="row">
              <button type="button" class="button" onClick={() => void logOut()}>
                Log out
              </button>
              {account.browsers > 1 && (
                <button type="button" class="button" onClick={() => void logOut(true)}>
                  Log out everywhere
                </button>
              )}
            </div>
          )}
        </div>
      </section>
    </div>
  );
}

function Keys({ list, revoke }: { list: AccountKey[]; revoke?: (prefix: string) => void }) {
  return (
    <table>
      <thead>
        <tr>
          <th>key</th>
          <th class="right">created</th>
          {revoke && (
            <th>
              <span class="hidden-visually">Actions</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {list.map((key) => (
          <tr key={key.prefix}>
            <td class="mono">rmr_{key.prefix}</td>
            <td class="right small dim">{format.ago(key.created_at)}</td>
            {revoke && (
              <td class="right">
                <button type="button" class="button small" aria-label={`Revoke rmr_${key.prefix}`} onClick={() => revoke(key.prefix)}>
                  Revoke
                </button>
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Providers({ list, unlink }: { list: LinkedProvider[]; unlink: (key: string) => void }) {
  return (
    <table>
      <tbody>
        {list.map((provider) => (
          <tr key={provider.key}>
            <td>{provider.name}</td>
            <td class="small dim">{provider.linked ? "linked" : "not linked"}</td>
            <td class="right">
              {provider.linked ? (
                <button type="button" class="button small" aria-label={`Unlink ${provider.name}`} onClick={() => unlink(provider.key)}>
                  Unlink
                </button>
              ) : (
                <button
                  type="button"
                  class="button small"
                  aria-label={`Link ${provider.name}`}
                  onClick={() => void begin(provider.key, "/account", true)}
                >
                  Link
                </button>
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
