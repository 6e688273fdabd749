// Runs the smoke tests in every runtime: one line each, and exit code 1 if any is not as expected.
const folder = 'tests/runtimes';
const gpu = (runtime) => ({ runtime, module: `${folder}/smoke.mjs` });
const cpu = (runtime) => ({ runtime, module: `${folder}/cpu-smoke.mjs`, cpu: true });
const ort = (runtime, arg) => ({ runtime, module: `${folder}/ort-smoke.mjs`, arg });
const noDriver = { VK_DRIVER_FILES: '/nonexistent', VK_ICD_FILENAMES: '/nonexistent' };

const JOBS = [
  ...['chromium', 'deno', 'node', 'bun'].flatMap((runtime) => [gpu(runtime), cpu(runtime)]),
  { runtime: 'workerd', module: `${folder}/workerd-smoke.mjs` },
  ort('chromium', 'float32'),
  ort('deno', 'float32'),
  ort('deno', 'float16'),
  // Without a driver each must fail: Bun would compute nothing, Deno would take OpenGL.
  ...['deno', 'node', 'bun'].map((runtime) => ({ ...gpu(runtime), environment: noDriver, fails: true })),
];

async function attempt({ runtime, module, cpu = false, arg = null, environment = {} }) {
  const { launch } = await import(`./${runtime}.mjs`);
  const before = { ...process.env };
  Object.assign(process.env, environment);
  try {
    return { passed: true, result: await launch({ module, cpu, arg, timeout: 120 }) };
  } catch (error) {
    return { passed: false, result: error.message };
  } finally {
    process.env = before;
  }
}

for (const job of JOBS) {
  const started = performance.now();
  const { passed, result } = await attempt(job);
  const asExpected = passed !== (job.fails ?? false);
  const seconds = ((performance.now() - started) / 1000).toFixed(1).padStart(5);
  const name = `${job.runtime} ${job.module}${job.fails ? ' without a driver' : ''}`;
  console.log(`${asExpected ? 'ok  ' : 'FAIL'} ${seconds} s  ${name}: ${result}`);
  if (!asExpected) process.exitCode = 1;
}
