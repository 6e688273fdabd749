// A Worker that holds tensors and brings them up to date: post { step, tensors: [{ name, dtype, shape, bytes }] }, then { patch: url }.
import { CpuSession, init } from '../index.js';

const ready = init();
let session;

addEventListener('message', async ({ data }) => {
  await ready;
  try {
    if (data.tensors) {
      session = new CpuSession({ step: data.step });
      for (const { name, dtype, shape, bytes } of data.tensors) session.bind(name, { dtype, shape }, bytes);
    } else {
      const applying = session.apply(data.patch);
      for await (const event of applying) postMessage({ event });
      postMessage({ applied: await applying, fingerprint: session.fingerprint() });
    }
  } catch (error) {
    postMessage({ error: { code: error.code, message: error.message } });
  }
});
