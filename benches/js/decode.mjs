#!/usr/bin/env node
// How fast the wasm module applies a patch to memory:
//     node benches/js/decode.mjs PATCH BASE.safetensors TARGET.safetensors ROUNDS
// Prints one line of JSON: seconds of each apply, and the number of changes. Every result is compared.
import { readFile } from 'node:fs/promises';

import { CpuSession, init, readHeader } from '../../applier-wasm/npm/index.js';
import { tensorsOf } from '../../tests/js/support.mjs';

const [patchFile, baseFile, targetFile, rounds] = process.argv.slice(2);
const patch = new Uint8Array(await readFile(patchFile));
const base = new Uint8Array(await readFile(baseFile));
const target = await readFile(targetFile);

async function seconds(work) {
  const start = performance.now();
  await work();
  return (performance.now() - start) / 1e3;
}

await init();
const { changes, baseStep } = await readHeader(patch);
const bytes = base.slice();
const applies = [];
// The first round warms the compiler and does not count.
for (let round = 0; round <= Number(rounds); round++) {
  bytes.set(base);
  const session = new CpuSession({ step: baseStep });
  for (const { name, dtype, shape, begin } of tensorsOf(bytes)) session.bind(name, { dtype, shape }, bytes, { offset: begin });
  const apply = await seconds(() => session.apply(patch));
  session.free();
  if (Buffer.compare(bytes, target) !== 0) throw new Error('the result is not the target');
  if (round > 0) applies.push(apply);
}
console.log(JSON.stringify({ applies, changes }));
