// A real OpenID Connect provider for the tests, on a free port: oidc-provider with its own login and consent pages, which accept any name
// and password. It prints its address, reads the callback address of the board from standard input, and then serves.

import { createServer } from "node:http";
import { createInterface } from "node:readline";
import Provider from "oidc-provider";

const [client_id, client_secret] = process.argv.slice(2);

let handler = (_request, response) => response.writeHead(503).end();
const server = createServer((request, response) => handler(request, response));

server.listen(0, "127.0.0.1", () => {
  // Another site than the board's, 127.0.0.1, so that cookies are kept apart as they are between real machines.
  const issuer = `http://localhost:${server.address().port}`;
  console.log(`listening on ${issuer}`);
  createInterface({ input: process.stdin }).once("line", (callback) => {
    const provider = new Provider(issuer, {
      clients: [{ client_id, client_secret, redirect_uris: [callback] }],
      claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["preferred_username"] },
      cookies: { keys: [client_secret] },
      findAccount: (_context, name) => ({
        accountId: name,
        claims: () => ({ sub: name, preferred_username: name, email: `${name}@example.org`, email_verified: true }),
      }),
    });
    handler = provider.callback();
    console.log("ready");
  });
});
