// Applies patches to a safetensors file in memory: node examples/apply.mjs BASE.safetensors STEP PATCH... (or deno run -A, bun)
import { readFile } from 'node:fs/promises';
import process from 'node:process';

import { CpuSession, init } from '../index.js';

const [file, step, ...patches] = process.argv.slice(2);
if (patches.length === 0) {
  console.error('apply.mjs BASE.safetensors STEP PATCH...');
  process.exit(2);
}
const checkpoint = new Uint8Array(await readFile(file));
const headerBytes = Number(new DataView(checkpoint.buffer).getBigUint64(0, true));
const tensors = JSON.parse(new TextDecoder().decode(checkpoint.subarray(8, 8 + headerBytes)));

await init();
const session = new CpuSession({ step: Number(step) });
delete tensors.__metadata__;
for (const [name, { dtype, shape, data_offsets: [begin] }] of Object.entries(tensors)) {
  session.bind(name, { dtype, shape }, checkpoint, { offset: 8 + headerBytes + begin });
}
for (const patch of patches) {
  const { targetStep, changes, fingerprint } = await session.apply(await readFile(patch));
  console.log(`step ${targetStep}: ${changes} changes, fingerprint ${fingerprint}`);
}
session.free();
