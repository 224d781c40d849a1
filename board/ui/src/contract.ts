/** Types of the server's responses and of a submission's events. */

export type Endpoint = "checker" | "benchmark" | "full" | "sample" | "sandbox" | "compile";
export type KernelShape = "kernel" | "host";

export interface ProblemRow {
  slug: string;
  title: string;
  difficulty: string;
  tags: string[];
  dtypes: string[];
  solved: boolean;
  submissions: number;
  accepted: number;
}

export interface ProblemCase {
  name: string;
  set: "check" | "sample" | "bench";
  /** Devices that the case is for: GPUs, the software GPU, or (null) both. */
  place: "real" | "emulated" | null;
}

export interface Tolerance {
  rtol: number;
  atol: number;
}

export interface Problem extends ProblemRow {
  statement_html: string;
  signature: string;
  starters: Record<string, Partial<Record<KernelShape, string>>>;
  cases: ProblemCase[];
  exact: boolean;
  tolerance: Record<string, Tolerance>;
  flops_formula?: string | null;
  bytes_formula?: string | null;
}

export interface Summary {
  id: string;
  problem: string;
  title: string;
  user: string;
  gpu: string;
  dtype: string;
  endpoint: Endpoint;
  status: string;
  state: "queued" | "running" | "done";
  emulated: boolean;
  public: boolean;
  created_at: number;
  finished_at: number | null;
  passed_tests: number | null;
  total_tests: number | null;
  avg_runtime_ms: number | null;
  avg_gflops: number | null;
  cost_usd: number | null;
  execution_time: number | null;
  flags: string[];
}

export type CaseResult = (TestResult & { kind: "check" }) | (BenchmarkResult & { kind: "bench" });

export interface Detail extends Summary {
  /** Whether the caller is its author. */
  mine: boolean;
  /** Visible to its author, and to everyone once it is public; likewise the events. */
  code: string | null;
  results: CaseResult[];
  events: BoardEvent[];
}

export interface Device {
  gpu_type: string;
  name: string;
  place: string;
  emulated: boolean;
  price_per_hour: number;
  queue_length: number;
  running: number;
  slots: number;
  expected_wait_s: number;
  state: string;
  warm: boolean;
}

export interface Estimate {
  cost_usd: number;
  seconds: number;
  warm: boolean;
  queue_s: number;
}

export interface Me {
  user: string;
  budget: { daily_usd: number | null; spent_usd: number; reserved_usd: number };
  limits: { per_minute: number | null; per_day: number | null };
}

export interface QueueEntry {
  id: string;
  user: string;
  problem: string;
  gpu: string;
  endpoint: Endpoint;
  position: number;
  expected_wait_s: number;
  queued_at: number;
  running: boolean;
}

export interface LeaderboardEntry {
  rank: number;
  user: string;
  submission_id: string;
  avg_runtime_ms: number | null;
  avg_gflops: number | null;
  instructions?: number | null;
  created_at: number;
  public: boolean;
}

export interface Leaderboard {
  emulated: boolean;
  entries: LeaderboardEntry[];
}

export interface Kernel {
  name: string;
  vgprs: number;
  agprs: number;
  sgprs: number;
  lds_bytes: number;
  scratch_bytes: number;
  waves_per_simd: number;
  spilled_vgprs: number;
  spilled_sgprs: number;
}

export interface TestResult {
  test_id: number;
  name: string;
  status: "PASSED" | "FAILED";
  runtime_ms?: number | null;
  max_difference?: number | null;
  /** Why the case failed, if not because of wrong numbers. */
  message?: string;
}

export interface Roofline {
  flops: number | null;
  bytes: number;
  intensity: number | null;
  peak_flops: number;
  peak_bytes_per_s: number;
}

export interface Counts {
  instructions: number;
  valu: number;
  salu: number;
  mfma: number;
  vmem: number;
  lds: number;
  bytes_read: number;
  bytes_written: number;
}

export interface BenchmarkResult {
  test_id: number;
  name: string;
  runtime_ms: number;
  ci_low_ms: number;
  ci_high_ms: number;
  mean_ms: number;
  min_ms: number;
  p95_ms: number;
  samples_ms: number[];
  rejected: number;
  gflops?: number | null;
  gbytes_per_s: number;
  floor_ms: number;
  roofline: Roofline;
  counts?: Counts | null;
}

export interface Difference {
  expected: unknown;
  actual: unknown;
  diff: unknown;
}

export interface DebugInfo {
  case?: string;
  output?: string;
  shape?: number[];
  max_difference?: number | string;
  mean_difference?: number | string;
  mismatches?: number;
  total_elements?: number;
  sample_differences?: Record<string, Difference>;
  message?: string;
}

/** Numbers that JSON cannot represent are strings. */
export interface SampleArray {
  shape: number[];
  values: (number | string)[];
}

export type SampleValues = Record<string, SampleArray | number | string>;

/** One event of a submission. The status determines which other fields are present. */
export interface BoardEvent {
  id?: number;
  submission_id?: string;
  timestamp?: number;
  status: string;
  message?: string;
  details?: string;
  cached?: boolean;
  error?: string;
  rule?: string;
  position?: number;
  expected_wait_s?: number;
  compile_ms?: number;
  kernels?: Kernel[];
  warnings?: string;
  total_tests?: number;
  passed_tests?: number;
  result?: unknown;
  test_results?: unknown[];
  debug_info?: DebugInfo | string | null;
  avg_runtime_ms?: number;
  avg_gflops?: number | null;
  emulated?: boolean;
  deterministic?: boolean;
  flags?: string[];
  input?: SampleValues;
  output?: SampleValues;
  expected_output?: SampleValues;
  stdout?: string;
  stderr?: string;
  return_code?: number;
  stream?: string;
  line?: string;
  isa?: IsaKernel[];
  execution_time?: number;
  cost_usd?: number;
}

export interface IsaLine {
  address: number;
  text: string;
  source_line?: number;
}

export interface IsaKernel {
  kernel: string;
  lines: IsaLine[];
}
