// Runs inside Node, Deno or Bun: gets a WebGPU, calls the module's `run`, reports its result. The job is the last
// argument, as JSON.
import { readFile } from 'node:fs/promises';
import process from 'node:process';
import { pathToFileURL } from 'node:url';

import { openDevice } from './canary.mjs';
import { encodeResult } from './result.mjs';

const OPEN_GPU = {
  deno: () => navigator.gpu,
  async node() {
    const { create, globals } = await import('webgpu');
    Object.assign(globalThis, globals);
    const gpu = create([]);
    // Node has no `navigator` before version 21.
    globalThis.navigator ??= {};
    Object.defineProperty(navigator, 'gpu', { value: gpu, configurable: true });
    return gpu;
  },
  async bun() {
    const { setupGlobals } = await import('bun-webgpu');
    await setupGlobals();
    return navigator.gpu;
  },
};

async function openGpu(runtime) {
  const gpu = await OPEN_GPU[runtime]();
  const { device } = await openDevice(gpu);
  device.destroy();
  return gpu;
}

// Bun would only print it.
process.on('unhandledRejection', (error) => {
  console.error(error);
  process.exit(1);
});

const { runtime, cpu, root, module, arg } = JSON.parse(process.argv.at(-1));
const base = pathToFileURL(`${root}/`);
const { run } = await import(new URL(module, base).href);
const result = await run({
  gpu: cpu ? undefined : await openGpu(runtime),
  runtime,
  arg,
  readFile: async (path) => new Uint8Array(await readFile(new URL(path, base))),
  log: (...parts) => console.error(...parts),
});
await new Promise((resolve) => process.stdout.write(`${encodeResult(result)}\n`, resolve));
// Dawn's threads would keep Node and Bun alive.
process.exit(0);
