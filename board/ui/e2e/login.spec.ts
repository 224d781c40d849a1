import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { paste, picture } from "./board";
import type { LoginLabel } from "./labels";
import { atProvider, expect, logIn, loginLink, test } from "./login";
import { right } from "./solutions";
import { view, type Width } from "./views";

test.describe.configure({ mode: "serial" });

const PROBLEM = "/problems/leaky-relu";

test("a person logs in through the provider, submits, and logs out", async ({ page, context, request }) => {
  await page.goto(`${PROBLEM}?tab=discussion`);
  await page.getByRole("banner").getByRole("link", { name: "Log in" }).click();
  await expect(page.getByRole("button", { name: "Log in with Test ID" })).toBeVisible();
  await picture(page, "login");
  await page.getByRole("button", { name: "Log in with Test ID" }).click();
  await atProvider(page, "ada");
  // Back at the page where the login began, with a new account.
  await expect(page).toHaveURL(`${PROBLEM}?tab=discussion`);
  await expect(page.locator(".bar .user-name")).toHaveText("ada");
  await expect(page.locator(".notice")).toContainText("Your name here is ada");
  await picture(page, "logged-in");
  await paste(page, right);
  await page.keyboard.press("ControlOrMeta+Enter");
  await expect(page.locator(".verdict-line strong")).toHaveText("Accepted");
  await page.goto("/users/ada");
  await expect(page.getByText("This is you.")).toBeVisible();
  const [cookie] = (await context.cookies()).filter((one) => one.name === "remora_session");
  expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Lax", path: "/" });
  await page.getByRole("button", { name: "Log out" }).click();
  await expect(page.getByRole("banner").getByRole("link", { name: "Log in" })).toBeVisible();
  // The cookie is gone, and what it contained no longer works.
  expect((await context.cookies()).filter((one) => one.name === "remora_session")).toEqual([]);
  const replayed = await request.get("/api/me", { headers: { cookie: `remora_session=${cookie?.value}` } });
  expect(replayed.status()).toBe(401);
});

test("a logged-in user creates a key for programs and revokes it", async ({ page, playwright, site }) => {
  await logIn(page, "ada");
  await page.getByRole("banner").getByRole("link", { name: "Account" }).click();
  await page.getByRole("button", { name: "Create a key" }).click();
  const key = await page.getByLabel("The new key").inputValue();
  await expect(page.getByRole("button", { name: "Unlink Test ID" })).toBeVisible();
  await picture(page, "account");
  const headers = { authorization: `Bearer ${key}` };
  const programs = await playwright.request.newContext({ baseURL: site.board.url, extraHTTPHeaders: headers });
  expect(await (await programs.get("/api/me")).json()).toMatchObject({ user: "ada", authentication: "key" });
  page.once("dialog", (dialog) => void dialog.accept());
  await page.getByRole("button", { name: /^Revoke/ }).click();
  await expect(page.getByText("No keys.")).toBeVisible();
  expect((await programs.get("/api/me")).status()).toBe(401);
  await programs.dispose();
});

test("a replayed callback, a forged state and another browser are refused", async ({ page, browser, site }) => {
  let callback = "";
  page.on("request", (request) => {
    if (request.isNavigationRequest() && request.url().includes("/login/callback/")) callback = request.url();
  });
  await logIn(page, "ada");
  expect(callback).toContain("code=");
  await page.goto(callback);
  await expect(page.getByRole("alert")).toContainText("This login has expired or was finished before");
  // The code does not stay in the address.
  await expect(page).toHaveURL("/login/callback/test");
  await picture(page, "login-failed");
  await page.goto("/login/callback/test?code=x&state=forged");
  await expect(page.getByRole("alert")).toContainText("This login has expired or was finished before");
  await page.getByRole("link", { name: "Back to the login page" }).click();
  await expect(page.getByText("You are logged in as ada")).toBeVisible();

  // A callback that is kept from its browser works in no other.
  const victim = await browser.newContext({ baseURL: site.board.url });
  const pages = [await victim.newPage(), await (await browser.newContext({ baseURL: site.board.url })).newPage()] as const;
  await pages[0].goto("/login");
  await pages[0].getByRole("button", { name: "Log in with Test ID" }).click();
  await expect(pages[0].locator("input[name=login]")).toBeVisible();
  // Without its script the page does not finish the login.
  await pages[0].route("**/assets/*.js", (route) => route.abort());
  await atProvider(pages[0], "eve");
  await pages[0].waitForURL("**/login/callback/test?**");
  await pages[1].goto(pages[0].url());
  await expect(pages[1].getByRole("alert")).toContainText("This login was started in another browser");
  for (const one of pages) await one.context().close();
});

test("an identity token with another nonce is refused", async ({ page }) => {
  await page.route("**/auth?**", (route) => {
    const url = new URL(route.request().url());
    url.searchParams.set("nonce", "another");
    return route.continue({ url: url.href });
  });
  await page.goto("/login");
  await page.getByRole("button", { name: "Log in with Test ID" }).click();
  await atProvider(page, "mallory");
  await expect(page.getByRole("alert")).toContainText("identity token is not valid for this login");
  await expect(page.getByRole("alert")).toContainText("nonce");
  expect((await page.request.get("/api/me")).status()).toBe(401);
});

test("a login that is cancelled at the provider says so", async ({ page }) => {
  await page.goto("/login");
  await page.getByRole("button", { name: "Log in with Test ID" }).click();
  await page.getByText("Cancel").click();
  await expect(page.getByRole("alert")).toContainText("Test ID refused the login: access_denied");
});

test("a login link asks first, logs in once, and its secret leaves the address", async ({ page, browser, site }) => {
  const link = loginLink(site.board, "grace");
  await page.goto(link);
  await expect(page.getByRole("button", { name: "Log in as grace" })).toBeVisible();
  await expect(page).toHaveURL("/login/link");
  await picture(page, "login-link");
  await page.getByRole("button", { name: "Log in as grace" }).click();
  await expect(page.locator(".bar .user-name")).toHaveText("grace");
  const other = await (await browser.newContext()).newPage();
  await other.goto(link);
  await expect(other.getByRole("alert")).toContainText("This login link is not valid");
  await other.context().close();
});

test("a page of another site cannot use the login", async ({ page }) => {
  await logIn(page, "ada");
  // Another port is the same site to cookies, so the browser sends them; the server refuses the request.
  const site = createServer((_, response) => response.setHeader("content-type", "text/html").end("<p>other</p>"));
  await new Promise<void>((resolve) => site.listen(0, "127.0.0.1", resolve));
  const board = new URL(page.url()).origin;
  const other = await page.context().newPage();
  await other.goto(`http://127.0.0.1:${(site.address() as AddressInfo).port}/`);
  const answered = other.waitForResponse((response) => response.url().endsWith("/api/logout"));
  await other.evaluate(
    (url) => fetch(url, { method: "POST", mode: "no-cors", credentials: "include", body: "{}" }).catch(() => null),
    `${board}/api/logout`,
  );
  const response = await answered;
  expect(response.status()).toBe(403);
  expect((await response.request().allHeaders()).cookie).toContain("remora_session=");
  site.close();
  await page.reload();
  await expect(page.locator(".bar .user-name")).toHaveText("ada");
});

test("the login pages fit a desktop and a phone, and can be read by everyone in both themes", async ({ page, site }) => {
  const loggedOut: Record<Exclude<LoginLabel, "account" | "login-again">, (width: Width) => Promise<unknown>> = {
    login: async () => {
      await page.goto("/login");
      await expect(page.getByRole("button", { name: "Log in with Test ID" })).toBeVisible();
    },
    "account-locked": async () => {
      await page.goto("/account");
      await expect(page.getByRole("alert")).toBeVisible();
    },
    "login-failed": async () => {
      await page.goto("/login/callback/test?state=x&error=access_denied");
      await expect(page.getByRole("alert")).toBeVisible();
    },
    "login-link": async (width) => {
      await page.goto(loginLink(site.board, `user-${width}`));
      await expect(page.getByRole("button", { name: /^Log in as/ })).toBeVisible();
    },
  };
  for (const [label, open] of Object.entries(loggedOut)) await view(page, label as LoginLabel, open);
  await page.getByRole("button", { name: /^Log in as/ }).click();
  await expect(page).toHaveURL("/");
  await view(page, "account", async () => {
    await page.goto("/account");
    await page.getByRole("button", { name: "Create a key" }).click();
    await expect(page.getByLabel("The new key")).toBeVisible();
  });
  await view(page, "login-again", () => page.goto("/login"));
});
