#!/usr/bin/env node
// How fast the wasm module applies a patch to memory, and expands its symbols alone:
//     node applier-wasm/bench/decode.mjs PATCH BASE.safetensors TARGET.safetensors ROUNDS
// Prints one line of JSON: seconds of each apply and each expansion, and the number of changes. Every result is compared.
import { readFile } from 'node:fs/promises';

import * as glue from '../npm/dist/full/pulse.js';
import { CpuSession, init, readHeader } from '../npm/index.js';
import { tensorsOf } from '../test/support.mjs';

const [patchFile, baseFile, targetFile, rounds] = process.argv.slice(2);
const patch = new Uint8Array(await readFile(patchFile));
const base = new Uint8Array(await readFile(baseFile));
const target = await readFile(targetFile);

async function seconds(work) {
  const start = performance.now();
  await work();
  return (performance.now() - start) / 1e3;
}

const REPEATS = 2;

function expand() {
  if (glue.rawExpand(patch, REPEATS) !== REPEATS * changes) throw new Error('symbols are missing');
}

await init();
const { changes, baseStep } = await readHeader(patch);
const bytes = base.slice();
const [applies, expansions] = [[], []];
// The first round warms the compiler and does not count.
for (let round = 0; round <= Number(rounds); round++) {
  bytes.set(base);
  const session = new CpuSession({ step: baseStep });
  for (const { name, dtype, shape, begin } of tensorsOf(bytes)) session.bind(name, { dtype, shape }, bytes, { offset: begin });
  const apply = await seconds(() => session.apply(patch));
  session.free();
  if (Buffer.compare(bytes, target) !== 0) throw new Error('the result is not the target');
  const expanded = [];
  for (let i = 0; i < 10; i++) {
    expanded.push((await seconds(() => expand())) / REPEATS);
  }
  if (round > 0) {
    applies.push(apply);
    expansions.push(...expanded);
  }
}
console.log(JSON.stringify({ applies, expansions, changes }));
