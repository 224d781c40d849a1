import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, fits, paste, picture, put, test, type } from "./board";
import type { BoardLabel } from "./labels";
import { allReduce, broken, endless, outside, racy, right, rightToo, slow, wrong } from "./solutions";
import { view } from "./views";

test.describe.configure({ mode: "serial" });

const PROBLEM = "/problems/leaky-relu";

test("the list is searched, narrowed and followed to a problem", async ({ page }) => {
  await page.goto("/");
  const rows = page.locator("table.problems tbody tr");
  await expect(rows.filter({ hasText: "Leaky" })).not.toHaveCount(0);
  const all = await rows.count();
  await picture(page, "problems");
  await page.keyboard.press("/");
  await expect(page.getByRole("searchbox")).toBeFocused();
  await page.keyboard.type("leaky relu");
  await expect.poll(() => rows.count()).toBeLessThan(all);
  await page.getByRole("button", { name: "Hard" }).click();
  await expect(page.getByText("No problem matches.")).toBeVisible();
  await page.getByRole("button", { name: /Show all/ }).click();
  await expect(rows).toHaveCount(all);
  await page.locator(`a[href="${PROBLEM}"]`).click();
  await expect(page).toHaveURL(PROBLEM);
  await expect(page.locator(".prose math").first()).toBeVisible();
});

test("an endless kernel is found again after a reload, and stopped", async ({ page }) => {
  await page.goto(PROBLEM);
  await paste(page, endless);
  await page.keyboard.press("ControlOrMeta+Enter");
  const check = page.locator(".stepper li", { hasText: "Check" });
  await expect(check).toHaveClass(/active/);
  const address = page.url();
  expect(address).toContain("run=");
  await page.reload();
  expect(page.url()).toBe(address);
  await expect(page.locator(".cm-content")).toContainText("while (place[i]");
  await expect(check).toHaveClass(/active/);
  await picture(page, "reloaded");
  await expect(page.locator(".verdict-line strong")).toHaveText("Out of time");
  await expect(check).toHaveClass(/failed/);
  await picture(page, "out-of-time");
});

test("a program that does not compile leads to its line", async ({ page }) => {
  await page.goto(PROBLEM);
  await paste(page, broken);
  await page.getByRole("button", { name: /^Submit/ }).click();
  await expect(page.locator(".verdict-line strong")).toHaveText("Does not compile");
  const place = page.getByRole("button", { name: /^\S+:\d+:\d+:/ }).first();
  await place.click();
  await expect(page.locator(".cm-lit")).toContainText("inptu");
  await expect(page.locator(".cm-lint-marker-error")).toHaveCount(1);
  await picture(page, "does-not-compile");
  // With another text in the editor, nothing marks the lines of the old one.
  const address = page.url();
  await paste(page, right);
  await page.goto(address);
  await expect(page.locator(".verdict-line strong")).toHaveText("Does not compile");
  await expect(page.locator(".cm-content")).toContainText("input[i] > 0.0f");
  await expect(page.locator(".cm-lint-marker-error")).toHaveCount(0);
});

test("a memory fault marks its line", async ({ page }) => {
  await page.goto(PROBLEM);
  await paste(page, outside);
  await page.getByRole("button", { name: /^Submit/ }).click();
  await expect(page.locator(".verdict-line strong")).toHaveText("Run-time error");
  await expect(page.locator(".cm-lint-marker-error")).toHaveCount(1);
  await expect(page.locator(".cm-lintRange-error")).toHaveText("output");
  await picture(page, "memory-fault");
});

test("a wrong answer shows where it is wrong", async ({ page }) => {
  await page.goto(PROBLEM);
  await paste(page, wrong);
  await page.keyboard.press("ControlOrMeta+Enter");
  await expect(page.locator(".verdict-line strong")).toHaveText("Wrong answer");
  await expect(page.locator(".difference-table tbody tr").first()).toBeVisible();
  await expect(page.locator(".difference-table mark").first()).not.toBeEmpty();
  await expect(page.locator(".difference-map circle").first()).toBeVisible();
  await expect(page.locator(".cases tr.bad").first()).toBeVisible();
  await picture(page, "wrong-answer");
});

test("the sample runs, and compiling alone shows the instructions of a line", async ({ page }) => {
  await page.goto(PROBLEM);
  await paste(page, right);
  await page.keyboard.press("ControlOrMeta+'");
  await expect(page.locator(".verdict-line strong")).toHaveText("Sample passed");
  await expect(page.locator(".sample-run .matrix").first()).toBeVisible();
  await picture(page, "sample");
  await page.getByRole("button", { name: "Compile" }).click();
  await expect(page.locator(".isa-line").first()).toBeVisible();
  await page.locator(".cm-line", { hasText: "input[i]" }).click();
  await expect(page.locator(".isa-line.lit").first()).toBeVisible();
  await picture(page, "instructions");
});

test("the check reports a race at its lines, and a right kernel is clean", async ({ page }) => {
  await page.goto(PROBLEM);
  await paste(page, racy);
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await expect(page.locator(".verdict-line strong")).toHaveText("Problems found");
  const table = page.getByRole("table", { name: "Findings" });
  await expect(table).toContainText("Race on local memory");
  // Both lines of the race are marked.
  await expect(page.locator(".cm-lint-marker-error")).toHaveCount(2);
  await table.getByRole("button").first().click();
  await expect(page.locator(".cm-lit")).toContainText("tile[threadIdx.x] =");
  await table.getByText("Accesses").first().click();
  await expect(table).toContainText("ds_write");
  await picture(page, "check");
  // A reload restores the result and its marks.
  await page.reload();
  await expect(page.locator(".cm-lint-marker-error")).toHaveCount(2);
  await paste(page, right);
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await expect(page.locator(".verdict-line strong")).toHaveText("No problems found");
  await expect(page.locator(".cm-lint-marker-error")).toHaveCount(0);
  await picture(page, "check-clean");
});

test("the profile shows the heat of lines", async ({ page }) => {
  await page.emulateMedia({ colorScheme: "dark" });
  await page.goto(PROBLEM);
  await paste(page, slow);
  await page.getByRole("button", { name: "Profile", exact: true }).click();
  await expect(page.locator(".verdict-line strong")).toHaveText("Profiled");
  await expect(page.locator(".cm-heat-mark").first()).toBeVisible();
  const lines = page.getByRole("table", { name: "Source lines" });
  await lines.locator("tbody tr").first().getByRole("button").click();
  await expect(page.locator(".cm-lit")).toContainText("k < 300");
  await expect(page.locator(".profile-facts")).toContainText("limited by");
  await picture(page, "profile-dark");
  await page.setViewportSize({ width: 390, height: 844 });
  await page.getByRole("tab", { name: "Result" }).first().click();
  await fits(page);
  await picture(page, "profile-phone");
  await page.getByRole("tab", { name: "Code" }).click();
  await expect(page.locator(".cm-heat-mark").first()).toBeVisible();
  await fits(page);
  await picture(page, "profile-phone-code");
  // After a reload the heat is shown with the text that it belongs to, and not with another one.
  const address = page.url();
  await page.goto(address);
  await page.getByRole("tab", { name: "Code" }).click();
  await expect(page.locator(".cm-heat-mark").first()).toBeVisible();
  await paste(page, right);
  await page.goto(address);
  await expect(page.locator(".profile-facts")).toContainText("limited by");
  await page.getByRole("tab", { name: "Code" }).click();
  await expect(page.locator(".cm-content")).toContainText("input[i] > 0.0f");
  await expect(page.locator(".cm-heat-mark")).toHaveCount(0);
});

test("custom inputs run with the user's numbers, and wrong ones are explained", async ({ page }) => {
  await page.goto(PROBLEM);
  await paste(page, right);
  await page.getByRole("tab", { name: "Custom input" }).click();
  const form = page.getByRole("form", { name: "Custom input" });
  await form.getByLabel("n", { exact: true }).fill("1");
  await form.getByLabel("m", { exact: true }).fill("3");
  await form.getByLabel("alpha").fill("0.5");
  await form.getByRole("combobox").selectOption("these values");
  await form.getByLabel("Values of input").fill("4, -8");
  await picture(page, "custom-form");
  await form.getByRole("button", { name: "Run" }).click();
  await expect(page.locator(".notices")).toContainText("its shape 1 x 3 needs 3");
  await form.getByLabel("Values of input").fill("4, -8, x");
  await form.getByRole("button", { name: "Run" }).click();
  await expect(form.getByRole("alert")).toContainText('"x" is not a number');
  await form.getByLabel("Values of input").fill("4, -8, 2");
  await form.getByRole("button", { name: "Run" }).click();
  await expect(page.locator(".verdict-line strong")).toHaveText("Custom input passed");
  const blocks = page.locator(".outcome .sample-block");
  await expect(blocks).toHaveCount(3);
  await expect(blocks.last().locator("td")).toHaveText(["4", "-4", "2"]);
  await picture(page, "custom");
});

test("without a software GPU the tools are off, with the reason", async ({ page }) => {
  const gpu = { gpu_type: "MI300X", name: "MI300X", place: "worker", emulated: false, price_per_hour: 1, queue_length: 0,
    running: 0, slots: 1, expected_wait_s: 0, state: "ready", warm: true };
  await page.route("**/api/devices", (route) => route.fulfill({ json: { devices: [gpu] } }));
  await page.goto(PROBLEM);
  await expect(page.getByText("Check and Profile need a software GPU")).toBeVisible();
  for (const name of ["Check", "Profile"]) await expect(page.getByRole("button", { name, exact: true })).toBeDisabled();
});

test("leaky-relu is solved; the roofline, the estimate and the source of each instruction are there", async ({ page }) => {
  await page.goto(PROBLEM);
  await type(page, right);
  await page.keyboard.press("ControlOrMeta+Enter");
  await expect(page.locator(".verdict-line strong")).toHaveText("Accepted");
  for (const step of ["Queue", "Compile", "Check", "Measure"]) {
    await expect(page.locator(".stepper li", { hasText: step })).toHaveClass(/done/);
  }
  // Only the panes scroll: the verdict stays in the window beside a long statement.
  expect(await page.evaluate(() => document.documentElement.scrollHeight - window.innerHeight)).toBe(0);
  await picture(page, "accepted");
  await page.getByRole("link", { name: "Details" }).click();
  await expect(page.getByRole("heading", { name: "Roofline" })).toBeVisible();
  await expect(page.locator(".plot .roof")).toBeVisible();
  await expect(page.locator(".plot .roofs")).toContainText("FLOP/s float32");
  await page.locator(".plot .dot").first().focus();
  await expect(page.locator(".plot-note")).toContainText("roof allows");
  const measured = page.getByRole("table", { name: "Measured cases" });
  await expect(measured).toContainText("limited by");
  await expect(measured).toContainText("Infinity Cache hits");
  // An estimate repeats exactly, so it has no spread.
  await expect(page.getByRole("heading", { name: "Spread of the samples" })).toHaveCount(0);
  await expect(page.getByRole("heading", { name: "Instructions executed" })).toBeVisible();
  await page.locator("button.code-line", { hasText: "input[i]" }).click();
  const lit = page.locator(".isa-line.lit");
  await expect(lit.first()).toBeVisible();
  await expect(lit.filter({ hasText: "global_load" })).not.toHaveCount(0);
  await picture(page, "submission", true);
  await page.goto("/");
  await expect(page.locator("tr", { has: page.locator(`a[href="${PROBLEM}"]`) }).locator(".solved")).toBeVisible();
});

test("two submissions are compared, and ranked apart from GPUs", async ({ page }) => {
  await page.goto(PROBLEM);
  await paste(page, rightToo);
  await page.keyboard.press("ControlOrMeta+Enter");
  await expect(page.locator(".verdict-line strong")).toHaveText("Accepted");
  await page.goto("/submissions?status=BENCHMARKED");
  const boxes = page.locator("table.submissions input[type=checkbox]");
  await expect(boxes).toHaveCount(2);
  await boxes.nth(1).check();
  await boxes.nth(0).check();
  await picture(page, "submissions");
  await page.getByRole("button", { name: /^Compare/ }).click();
  await expect(page.locator(".change.changed .after").first()).toContainText("fmaxf");
  const runtime = page.locator(".compare tbody tr").first();
  await expect(runtime).toContainText("runtime");
  await expect(runtime).toContainText(/no measurable difference|faster|slower/);
  await picture(page, "compare", true);
  await page.goto("/leaderboard/leaky-relu");
  await expect(page.locator(".emulated-note")).toBeVisible();
  await expect(page.locator("table.ranking tbody tr")).toHaveCount(1);
  await expect(page.locator("table.ranking thead")).toContainText("estimate");
  await expect(page.locator("table.ranking tbody tr")).toContainText("µs");
  await picture(page, "leaderboard");
  await page.goto("/queue");
  await expect(page.locator(".device").first()).toContainText("ready");
  await picture(page, "queue");
});

test("the list is sorted by its headings", async ({ page }) => {
  await page.goto("/");
  const first = page.locator("table.problems tbody tr").first();
  await page.getByRole("button", { name: "accepted" }).click();
  await expect(first).toContainText("Leaky ReLU");
  await expect(page.locator("th[aria-sort=descending]")).toContainText("accepted");
  await page.getByRole("button", { name: "problem", exact: true }).click();
  const titles = await page.locator("table.problems .problem-title").allInnerTexts();
  expect(titles).toEqual([...titles].sort((one, two) => one.localeCompare(two, "en")));
});

test("the ranking leads to a profile and to the leaderboards", async ({ page }) => {
  await page.goto("/");
  await page.getByRole("navigation").getByRole("link", { name: "Ranking" }).click();
  const overall = page.locator("section", { has: page.getByRole("heading", { name: "Overall" }) });
  await expect(overall.locator("tbody tr")).toHaveCount(1);
  await expect(overall.locator("tbody tr")).toContainText("200");
  await picture(page, "ranking");
  await overall.getByRole("link", { name: "local" }).click();
  await expect(page).toHaveURL("/users/local");
  await expect(page.getByRole("link", { name: "Leaky ReLU" }).first()).toBeVisible();
  await picture(page, "profile", true);
});

test("a share link shows a submission until it is revoked, and its result fits a frame", async ({ page, browser, board }) => {
  await page.goto("/submissions?status=BENCHMARKED");
  await page.locator("table.submissions .problem-title").first().click();
  await page.getByRole("button", { name: "Share" }).click();
  await page.getByRole("button", { name: "Create a link" }).click();
  const link = await page.getByLabel("Link").inputValue();
  await picture(page, "share");
  // Another browser has neither cookies nor storage of this one.
  const other = await browser.newContext();
  const guest = await other.newPage();
  await guest.goto(link);
  await expect(guest.locator(".code")).toContainText("fmaxf");
  await expect(guest.getByRole("button", { name: "Share" })).toHaveCount(0);
  await picture(guest, "shared");
  // A page of another site: the frame works there, the page itself does not.
  const frames = `<iframe id=good src="${link.replace("/s/", "/embed/result/")}"></iframe><iframe src="${board.url}/"></iframe>`;
  const site = createServer((_, response) => response.setHeader("content-type", "text/html").end(frames));
  await new Promise<void>((resolve) => site.listen(0, "127.0.0.1", resolve));
  await guest.goto(`http://127.0.0.1:${(site.address() as AddressInfo).port}/`);
  await expect(guest.frameLocator("#good").getByText("Accepted")).toBeVisible();
  await expect.poll(() => guest.frames().map((frame) => frame.url())).toContain("chrome-error://chromewebdata/");
  site.close();
  for (const [path, name] of [
    [link.replace("/s/", "/embed/result/"), "embed-result"],
    [`${board.url}/embed/leaderboard/leaky-relu?theme=dark`, "embed-leaderboard"],
  ] as const) {
    await guest.setViewportSize({ width: 420, height: 300 });
    await guest.goto(path);
    await expect(guest.locator("h1")).toHaveText("Leaky ReLU");
    await picture(guest, name);
  }
  await page.getByRole("button", { name: "Revoke" }).click();
  await expect(page.getByRole("button", { name: "Create a link" })).toBeVisible();
  await guest.goto(link);
  await expect(guest.getByText("does not exist or was revoked")).toBeVisible();
  await other.close();
});

test("a discussion renders Markdown and runs nothing, and comments are removed", async ({ page }) => {
  await page.goto(`${PROBLEM}?tab=discussion`);
  await page.getByLabel("Comment").fill("Mind the **last** block: `i < n * m`\n\n<img src=x onerror=\"window.ran = true\"> [x](javascript:window.ran=true)");
  await page.getByRole("button", { name: "Comment", exact: true }).click();
  const comment = page.locator(".comment");
  await expect(comment.locator("strong").filter({ hasText: "last" })).toBeVisible();
  await expect(comment).toContainText("<img src=x");
  await expect(comment.locator("img, a[href^=javascript]")).toHaveCount(0);
  await picture(page, "discussion");
  expect(await page.evaluate(() => "ran" in window)).toBe(false);
  page.once("dialog", (dialog) => void dialog.accept());
  await page.getByRole("button", { name: "Remove" }).click();
  await expect(comment).toHaveCount(0);
  await page.getByRole("button", { name: "Editorial" }).click();
  await page.getByRole("button", { name: "Write the editorial" }).click();
  await page.getByLabel("Editorial", { exact: true }).fill("## Idea\n\nOne thread per element: $i < nm$.");
  await page.getByRole("button", { name: "Save" }).click();
  // Solved, so it is shown at once.
  await expect(page.locator(".prose math").first()).toBeVisible();
  await picture(page, "editorial");
});

test("one source runs on two devices", async ({ page }) => {
  await page.goto(PROBLEM);
  await paste(page, right);
  await page.getByRole("button", { name: "Devices…" }).click();
  const boxes = page.getByRole("dialog").getByRole("checkbox");
  await expect(boxes).toHaveCount(2);
  await boxes.nth(1).uncheck();
  await expect(page.getByRole("button", { name: "Submit to 1 device" })).toBeEnabled();
  await boxes.nth(1).check();
  await picture(page, "devices");
  await page.getByRole("button", { name: "Submit to 2 devices" }).click();
  await expect(page).toHaveURL(/\/batch\?ids=\w+,\w+$/);
  const rows = page.locator("table tbody tr");
  await expect(rows).toHaveCount(2);
  for (const [index, gpu] of ["MI300X", "MI210"].entries()) {
    await expect(rows.nth(index)).toContainText(gpu);
    await expect(rows.nth(index)).toContainText("Accepted");
    await expect(rows.nth(index)).toContainText("µs");
  }
  await picture(page, "batch");
});

test("a problem for two GPUs is solved by a host function", async ({ page }) => {
  await page.goto("/problems/all-reduce");
  await expect(page.getByRole("button", { name: "Kernel" })).toBeDisabled();
  await expect(page.locator(".cm-content")).toContainText("On GPU 1: input1, output1.");
  await put(page, allReduce);
  await page.keyboard.press("ControlOrMeta+Enter");
  await expect(page.locator(".verdict-line strong")).toHaveText("Accepted");
  await picture(page, "two-gpus");
  await page.getByRole("link", { name: "Details" }).click();
  await expect(page.getByRole("table", { name: "Measured cases" })).toContainText("link bandwidth between GPUs");
});

test("dark and light follow the system until they are switched", async ({ page }) => {
  const root = page.locator("html");
  await page.emulateMedia({ colorScheme: "dark" });
  await page.goto(PROBLEM);
  await expect(root).toHaveAttribute("data-theme", "dark");
  await expect(page.locator(".cm-content")).toBeVisible();
  await picture(page, "problem-dark");
  await page.getByRole("button", { name: "Light colours" }).click();
  await expect(root).toHaveAttribute("data-theme", "light");
  await page.reload();
  await expect(root).toHaveAttribute("data-theme", "light");
  await page.locator("h1").click();
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog")).toContainText("Submit");
  await picture(page, "keyboard");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
});

test("an API key is asked for, kept and sent", async ({ page }) => {
  await page.goto("/queue");
  await page.getByRole("button", { name: /API key/ }).click();
  await page.getByLabel("API key", { exact: true }).last().fill("rmr_test_secret");
  const asked = page.waitForRequest((request) => request.headers().authorization === "Bearer rmr_test_secret");
  await page.getByRole("button", { name: "Keep" }).click();
  await asked;
  await expect(page.locator(".key-name")).toHaveText("rmr_test");
});

test("every page fits a desktop and a phone, and can be read by everyone in both themes", async ({ page, request }) => {
  const ids = async (status: string, endpoint = "") => {
    const found = await request.get(`/api/submissions?status=${status}&problem=leaky-relu`);
    const { submissions } = (await found.json()) as { submissions: { id: string; endpoint: string }[] };
    return submissions.filter((one) => endpoint === "" || one.endpoint === endpoint).map((one) => one.id);
  };
  const run = async (status: string, endpoint = "") => `${PROBLEM}?run=${(await ids(status, endpoint))[0]}`;
  const [second, first] = await ids("BENCHMARKED");
  const share = await request.post(`/api/submissions/${first}/share`, { data: { shared: true } });
  const { token } = (await share.json()) as { token: string };
  const paths: Record<BoardLabel, string> = {
    problems: "/?q=relu",
    problem: PROBLEM,
    accepted: `${PROBLEM}?run=${first}`,
    "wrong-answer": await run("WRONG_ANSWER"),
    "compile-error": await run("COMPILE_ERROR"),
    check: await run("FINDINGS"),
    "profile-run": await run("PROFILED"),
    custom: await run("PASSED", "custom"),
    submissions: "/submissions",
    submission: `/submissions/${first}`,
    compare: `/compare?a=${first}&b=${second}`,
    batch: `/batch?ids=${first},${second}`,
    leaderboard: "/leaderboard/leaky-relu",
    ranking: "/ranking",
    profile: "/users/local",
    discussion: `${PROBLEM}?tab=discussion`,
    editorial: `${PROBLEM}?tab=editorial`,
    shared: `/s/${token}`,
    unshared: "/s/0",
    queue: "/queue",
    missing: "/nowhere",
    "embed-result": `/embed/result/${token}`,
    "embed-leaderboard": "/embed/leaderboard/leaky-relu",
  };
  for (const [label, path] of Object.entries(paths) as [BoardLabel, string][]) {
    await view(page, label, async (width) => {
      await page.goto(path);
      // On a phone the panes of a problem are tabs.
      if (width === "phone" && path.includes("?run=")) await page.getByRole("tab", { name: "Result" }).first().click();
    });
  }
});
