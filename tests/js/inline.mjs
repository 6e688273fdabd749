// The entry whose module is in its script: it asks for no second file.
import { CpuSession, init } from '../../applier-wasm/npm/inline.js';
import { assert, readChain, sameBytes, tensorsOf } from './support.mjs';

export async function run({ runtime, readFile }) {
  const real = globalThis.fetch;
  globalThis.fetch = async (url) => assert(false, `${url} was fetched`);
  try {
    await init();
  } finally {
    globalThis.fetch = real;
  }
  const [base, target] = await readChain(readFile);
  const bytes = base.file.slice();
  const session = new CpuSession({ step: base.step });
  for (const { name, dtype, shape, begin } of tensorsOf(bytes)) session.bind(name, { dtype, shape }, bytes, { offset: begin });
  await session.apply(target.patch);
  sameBytes(bytes, target.file, 'applied');
  return { runtime };
}
