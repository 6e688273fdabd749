// The receiver on a device that wgpu opens inside the module: Chromium and Deno.
import { OwnGpuSession, init, readHeader } from '../../applier-wasm/npm/wgpu.js';
import { readBuffer } from '../runtimes/canary.mjs';
import { equal, fails, readChain, sameBytes, tensorsOf } from './support.mjs';

export async function run({ readFile }) {
  await init();
  const chain = await readChain(readFile);
  const [base] = chain;
  const session = await OwnGpuSession.open({ step: base.step });
  const cells = (file, { begin, end }) => file.subarray(begin, end);
  const buffers = tensorsOf(base.file).map((tensor) => session.load(tensor.name, tensor, cells(base.file, tensor)));
  for (const { step, file, patch } of chain.slice(1)) {
    const applied = await session.apply(patch);
    const { targetFingerprint, seed } = await readHeader(patch);
    equal(applied.fingerprint, targetFingerprint, 'fingerprint of the result');
    equal(await session.fingerprint(seed), targetFingerprint, 'fingerprint on demand');
    // The device and its buffers are handed out: an engine may use them as its own.
    for (const [index, tensor] of tensorsOf(file).entries()) {
      sameBytes((await readBuffer(session.device, buffers[index])).subarray(0, tensor.end - tensor.begin), cells(file, tensor), `step ${step}: ${tensor.name}`);
    }
  }
  equal(await session.undo(), chain.at(-2).step, 'step after undo');
  await fails('stale', () => session.apply(chain[1].patch));
  session.free();
  return { steps: chain.length - 1 };
}
