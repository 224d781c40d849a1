/** One problem: statement, editor, and the result of the submission. */

import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import * as api from "../api";
import { diagnostics } from "../compiler";
import type { CustomInput, DeviceInfo, Endpoint, KernelReport, ProblemDetail, Starter, SubmitBody } from "../contract";
import * as device from "../device";
import * as drafts from "../drafts";
import { fault, marks } from "../fault";
import { Followed } from "../follow";
import * as format from "../format";
import { offer } from "../keys";
import { useLoad } from "../load";
import { refused, tell } from "../notice";
import * as observed from "../observed";
import { BatchButton } from "../part/batch";
import { Editor } from "../part/editor";
import { Icon } from "../part/icon";
import { Outcome } from "../part/outcome";
import { Split } from "../part/split";
import { Refused, Skeleton } from "../part/state";
import { Statement } from "../part/statement";
import { amend, parameter } from "../route";
import { useTitle } from "../title";
import type { EditorHandle } from "../surface";

type Pane = "statement" | "code" | "result";

export function ProblemPage({ slug }: { slug: string }) {
  const load = useLoad(() => api.problem(slug), [slug]);
  const now = load.now.value;
  useTitle(now.value?.title ?? "");
  if (now.value === null) {
    return (
      <main class={now.state === "refused" ? "page" : "workbench"}>
        {now.state === "refused" ? (
          <>
            <h1 tabIndex={-1}>{now.refusal.status === 404 ? "No such problem" : "Problem"}</h1>
            <Refused refusal={now.refusal} again={load.again} />
          </>
        ) : (
          <div class="workbench-waiting">
            <Skeleton width="40%" height="1.8em" />
            <Skeleton width="90%" />
            <Skeleton width="82%" />
            <Skeleton width="60%" />
          </div>
        )}
      </main>
    );
  }
  return <Workbench problem={now.value} />;
}

const PANES: [Pane, string][] = [
  ["statement", "Problem"],
  ["code", "Code"],
  ["result", "Result"],
];

function Workbench({ problem }: { problem: ProblemDetail }) {
  const before = drafts.choice(problem.slug);
  const dtype = useSignal(
    before.dtype !== undefined && problem.dtypes.includes(before.dtype) ? before.dtype : (problem.dtypes[0] ?? "float32"),
  );
  const shape = useSignal<keyof Starter>(before.shape === "host" || problem.gpus > 1 ? "host" : "kernel");
  const pane = useSignal<Pane>(parameter("run") === "" ? "statement" : "result");
  const line = useSignal<number | null>(null);
  const sending = useSignal(false);
  /** The source that was submitted last, which results refer to, and the editor's current text. */
  const sent = useSignal<string | null>(null);
  const written = useSignal<string | null>(null);
  const changed = useComputed(() => sent.value !== null && written.value !== null && sent.value !== written.value);
  const followed = useSignal<Followed | null>(null);
  const editor = useRef<EditorHandle | null>(null);
  const devices = useLoad(api.devices, [], 15_000).now.value.value ?? [];
  const chosen = device.pick(devices);
  const software = device.software(devices, chosen);

  const starter = () => problem.starters[dtype.value]?.[shape.value] ?? "";
  const draft = () => drafts.load(problem.slug, dtype.value, shape.value) ?? starter();
  const switchTo = (next: { dtype?: string; shape?: keyof Starter }) => {
    dtype.value = next.dtype ?? dtype.value;
    shape.value = next.shape ?? shape.value;
    drafts.choose(problem.slug, { dtype: dtype.value, shape: shape.value });
    editor.current?.replace(draft());
  };
  const reset = () => {
    const written = editor.current?.text() ?? "";
    if (written === starter()) return;
    editor.current?.replace(starter());
    tell("The starter code is restored.", { action: { label: "Undo", run: () => editor.current?.replace(written) } });
  };

  const watch = (next: Followed) => {
    followed.value?.stop();
    followed.value = next;
  };
  /** The current source as a submission without its device. */
  const submission = (endpoint: Endpoint): SubmitBody | null => {
    const code = editor.current?.text();
    if (code === undefined) return null;
    return { solution_code: code, problem: problem.slug, dtype: dtype.value, language: "hip", endpoint };
  };
  const send = async (endpoint: Endpoint, custom?: CustomInput) => {
    const body = submission(endpoint);
    if (body === null || sending.value) return;
    const code = body.solution_code ?? "";
    const place = endpoint === "check" || endpoint === "profile" ? software : chosen;
    if (place === null) {
      tell("No device is available.", { bad: true });
      return;
    }
    sending.value = true;
    try {
      const made = await api.submit({ ...body, gpu_type: place.gpu_type, custom });
      editor.current?.mark([]);
      editor.current?.heat([]);
      heat.current = [];
      line.value = null;
      sent.value = code;
      written.value = code;
      // Stored in the address, so that a reload finds it.
      amend({ run: made.id });
      watch(new Followed(made.id, endpoint, made.position ?? null));
      pane.value = "result";
    } catch (cause) {
      refused(cause);
    } finally {
      sending.value = false;
    }
  };

  const actions = useRef({ send, reset });
  actions.current = { send, reset };
  useEffect(
    () =>
      offer([
        { keys: "Ctrl+Enter", label: "Submit", run: () => void actions.current.send("full") },
        { keys: "Ctrl+'", label: "Run the sample", run: () => void actions.current.send("sample") },
        { keys: "Ctrl+;", label: "Compile only", run: () => void actions.current.send("compile") },
      ]),
    [],
  );

  // Restores the submission named in the address: its events are streamed from the first one.
  useEffect(() => {
    const id = parameter("run");
    if (id === "") return;
    let gone = false;
    api
      .submission(id)
      .then((detail) => {
        if (gone || followed.value !== null) return;
        sent.value = detail.code;
        watch(new Followed(id, detail.endpoint));
      })
      .catch((cause: unknown) => {
        // A missing or inaccessible submission is removed from the address; after a temporary error it is kept.
        if (cause instanceof api.Refusal && cause.status >= 400 && cause.status < 500) amend({ run: "" });
        else tell("The submission cannot be loaded now; reload to try again.", { bad: true });
      });
    return () => {
      gone = true;
    };
  }, []);
  useEffect(() => () => followed.value?.stop(), []);

  const run = followed.value?.run.value ?? null;
  const said = run?.end?.status === "COMPILE_ERROR" ? (run.end.details ?? "") : (run?.warnings ?? "");
  // A memory fault marks the line that its instruction was compiled from.
  const failed = run?.end?.status === "RUNTIME_ERROR" ? fault(run.end.details ?? "") : null;
  useEffect(() => {
    if (failed === null || run === null) return;
    let gone = false;
    api
      .isa(run.id)
      .then((isa) => {
        if (!gone && editor.current?.text() === sent.value) editor.current.mark(marks(failed, isa));
      })
      // Without a disassembly there is no line to mark; the message is shown anyway.
      .catch(() => undefined);
    return () => {
      gone = true;
    };
  }, [failed?.kernel, failed?.offset, run?.id]);

  // Messages of the compiler and findings mark their lines, and a profile shows the heat of lines, unless a reload finds another text
  // in the editor.
  const report = run?.end?.report;
  const heat = useRef<observed.Heat[]>([]);
  const annotate = (handle: EditorHandle | null) => {
    if (handle === null || handle.text() !== sent.value) return;
    if (said !== "") handle.mark(diagnostics(said));
    if (report !== undefined) handle.mark(observed.marks(report));
    if (heat.current.length > 0) handle.heat(heat.current);
  };
  useEffect(() => annotate(editor.current), [said, report, run?.id]);
  const profiled = (kernel: KernelReport) => {
    heat.current = observed.heat(kernel);
    annotate(editor.current);
  };

  const choose = (number: number) => {
    line.value = number;
    editor.current?.light([number]);
  };
  const goTo = (number: number, column: number) => {
    pane.value = "code";
    editor.current?.goTo(number, column);
  };
  const busy = sending.value || (run !== null && run.end === null);

  const code = (
    <section class="code-pane" aria-label="Solution">
      <div class="toolbar">
        <label>
          <span class="hidden-visually">Element type</span>
          <select class="field" value={dtype.value} onChange={(event) => switchTo({ dtype: event.currentTarget.value })}>
            {problem.dtypes.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <div class="segments" role="group" aria-label="Shape of the solution">
          <button
            type="button"
            aria-pressed={shape.value === "kernel"}
            disabled={problem.gpus > 1}
            title="extern &quot;C&quot; __global__ void solution(…): launched with the problem's grid and block"
            onClick={() => switchTo({ shape: "kernel" })}
          >
            Kernel
          </button>
          <button
            type="button"
            aria-pressed={shape.value === "host"}
            title="extern &quot;C&quot; void solution(…): a host function that launches its own kernels"
            onClick={() => switchTo({ shape: "host" })}
          >
            Host
          </button>
        </div>
        <button type="button" class="button plain icon" aria-label="Back to the starter code" title="Back to the starter code" onClick={reset}>
          <Icon name="reset" />
        </button>
        <span class="space" />
        <DeviceChoice devices={devices} gpus={problem.gpus} chosen={chosen} />
      </div>
      <Editor
        initial={draft()}
        changed={(text) => {
          written.value = text;
          drafts.save(problem.slug, dtype.value, shape.value, text, starter());
        }}
        cursor={(number) => {
          line.value = number;
        }}
        ready={(handle) => {
          editor.current = handle;
          written.value = handle.text();
          // A result that was restored before the editor.
          annotate(handle);
        }}
      />
      <div class="toolbar actions">
        <Cost problem={problem.slug} device={chosen} />
        <span class="space" />
        <BatchButton devices={devices} gpus={problem.gpus} disabled={busy} body={() => submission("full")} />
        <button type="button" class="button plain" disabled={busy} onClick={() => void send("compile")} title="Compile only (Ctrl+;)">
          <Icon name="chip" />
          <span class="wide-only">Compile</span>
        </button>
        <Tools busy={busy} software={software} known={devices.length > 0} send={(endpoint) => void send(endpoint)} />
        <button type="button" class="button" disabled={busy} onClick={() => void send("sample")}>
          <Icon name="play" />
          Sample <kbd class="wide-only">Ctrl '</kbd>
        </button>
        <button type="button" class="button primary" disabled={busy} onClick={() => void send("full")}>
          <Icon name="up" />
          Submit <kbd class="wide-only">Ctrl ⏎</kbd>
        </button>
      </div>
    </section>
  );
  return (
    <main class={`workbench show-${pane.value}`}>
      <div class="pane-choice" role="tablist" aria-label="Parts of the page">
        {PANES.map(([name, label]) => (
          <button type="button" role="tab" key={name} aria-selected={pane.value === name} onClick={() => (pane.value = name)}>
            {label}
            {name === "result" && run !== null && <span class={`pane-dot ${format.tone(run.end?.status ?? run.status)}`} />}
          </button>
        ))}
      </div>
      <Split
        name="problem"
        label="Width of the problem"
        direction="across"
        start={0.42}
        first={<Statement
            problem={problem}
            dtype={dtype.value}
            shape={shape.value}
            emulated={chosen?.emulated ?? false}
            solved={problem.solved || run?.end?.status === "BENCHMARKED"}
          />}
        second={
          <Split
            name="result"
            label="Height of the editor"
            direction="down"
            start={0.56}
            first={code}
            second={<Outcome
                followed={followed.value}
                changed={changed.value}
                line={line.value}
                choose={choose}
                goTo={goTo}
                profiled={profiled}
                problem={problem}
                busy={busy}
                runCustom={(input) => void send("custom", input)}
              />}
          />
        }
      />
    </main>
  );
}

interface ToolProperties {
  busy: boolean;
  software: DeviceInfo | null;
  /** Whether the devices are known. */
  known: boolean;
  send: (endpoint: Endpoint) => void;
}

/** Runs on a software GPU, which observes kernels. */
function Tools({ busy, software, known, send }: ToolProperties) {
  const missing = known && software === null;
  const where = software === null ? "" : `, on the software ${software.gpu_type}`;
  return (
    <>
      {missing && (
        <span class="small dim" id="no-software">
          Check and Profile need a software GPU
        </span>
      )}
      <button
        type="button"
        class="button"
        disabled={busy || software === null}
        aria-describedby={missing ? "no-software" : undefined}
        title={`Races, accesses out of bounds, uninitialised reads${where}`}
        onClick={() => send("check")}
      >
        <Icon name="search" />
        Check
      </button>
      <button
        type="button"
        class="button"
        disabled={busy || software === null}
        aria-describedby={missing ? "no-software" : undefined}
        title={`Instructions, waiting and memory traffic by source line${where}`}
        onClick={() => send("profile")}
      >
        <Icon name="bars" />
        Profile
      </button>
    </>
  );
}

function DeviceChoice({ devices, gpus, chosen }: { devices: DeviceInfo[]; gpus: number; chosen: DeviceInfo | null }) {
  if (devices.length === 0) return <Skeleton width="9em" height="34px" />;
  return (
    <label class="device-choice">
      <span class="hidden-visually">Device</span>
      <select
        class={`field${chosen?.emulated ? " emulated" : ""}`}
        value={chosen?.gpu_type}
        onChange={(event) => device.choose(event.currentTarget.value)}
      >
        {devices.map((one) => (
          <option key={`${one.gpu_type} ${one.name}`} value={one.gpu_type} disabled={one.state === "offline" || one.gpus < gpus}>
            {one.gpu_type}
            {one.emulated ? ", emulated" : ""}
            {one.state === "ready" ? "" : `, ${one.state}`}
            {one.gpus < gpus ? `, needs ${gpus} GPUs` : ""}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Estimated cost and waiting time of a submission. */
function Cost({ problem, device: chosen }: { problem: string; device: DeviceInfo | null }) {
  const gpu = chosen?.gpu_type ?? "";
  const now = useLoad(
    async () => (gpu === "" ? null : api.estimate(problem, gpu, "full")),
    [problem, gpu],
    15_000,
  ).now.value;
  if (now.value == null) return <span class="small dim cost">{"\u00a0"}</span>;
  const { cost_usd, seconds, queue_s, warm } = now.value;
  const parts = [
    cost_usd > 0 ? `about ${format.money(cost_usd)}` : "free",
    seconds > 0 ? format.wait(seconds) : "",
    queue_s >= 1 ? `${format.wait(queue_s)} in the queue` : "",
    warm ? "" : "cold start",
  ];
  return <span class="small dim cost">{parts.filter((part) => part !== "").join(", ")}</span>;
}
