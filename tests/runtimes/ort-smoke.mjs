// Proves that onnxruntime-web computes with weights that were overwritten in its own device's memory between two runs.
import {
  bufferTensor,
  createSession,
  createWeightBuffer,
  infer,
  readBuffer,
  toArray,
  twoMatMuls,
  valueTensor,
  writeWeightBuffer,
} from './ort.mjs';

const SHAPE = { rows: 3, inner: 32, middle: 48, columns: 40 };

// Small integers: sums stay exact in f16, so that every order of summation gives the same bits.
function integers(count, seed) {
  let state = seed;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return ((state >>> 16) % 3) - 1;
  });
}

function makeWeights(type, seed) {
  const { inner, middle, columns } = SHAPE;
  return { w1: toArray(type, integers(inner * middle, seed)), w2: toArray(type, integers(columns * middle, seed + 1)) };
}

function reference(x, { w1, w2 }) {
  const { rows, inner, middle, columns } = SHAPE;
  const y = [];
  for (let row = 0; row < rows; row += 1) {
    const hidden = Array.from({ length: middle }, (_, m) => {
      let sum = 0;
      for (let i = 0; i < inner; i += 1) sum += x[row * inner + i] * w1[i * middle + m];
      return sum;
    });
    for (let column = 0; column < columns; column += 1)
      y.push(hidden.reduce((sum, value, m) => sum + value * w2[column * middle + m], 0));
  }
  return y;
}

function assertEqual(found, wanted, what) {
  const wrong = wanted.findIndex((value, index) => value !== found[index]);
  if (found.length !== wanted.length || wrong !== -1)
    throw new Error(`${what}: y[${wrong}] is ${found[wrong]}, expected ${wanted[wrong]}`);
}

/** `arg`: the element type, float32 unless given. */
export async function run({ runtime, arg, log }) {
  const type = arg ?? 'float32';
  const started = performance.now();
  const { rows, inner, middle, columns } = SHAPE;
  const { session, device } = await createSession(twoMatMuls({ ...SHAPE, type }));
  const created = performance.now();
  device.addEventListener?.('uncapturederror', ({ error }) => log(`uncaptured: ${error.message}`));

  const values = integers(rows * inner, 7);
  const x = valueTensor(type, values, [rows, inner]);
  const old = makeWeights(type, 11);
  const buffers = { w1: createWeightBuffer(device, old.w1), w2: createWeightBuffer(device, old.w2) };
  const feeds = {
    x,
    w1: bufferTensor(buffers.w1, type, [inner, middle]),
    w2: bufferTensor(buffers.w2, type, [columns, middle]),
  };
  assertEqual((await infer(session, feeds)).y, reference(values, old), 'before');

  const next = makeWeights(type, 23);
  if (reference(values, next).join() === reference(values, old).join())
    throw new Error('both weights give the same output');
  for (const name of ['w1', 'w2']) writeWeightBuffer(device, buffers[name], next[name]);
  const after = (await infer(session, feeds)).y;
  assertEqual(after, reference(values, next), 'after');
  const resident = await readBuffer(device, buffers.w1);
  if (!resident.every((byte, index) => byte === new Uint8Array(next.w1.buffer)[index]))
    throw new Error('the buffer does not hold the new weights');

  const loaded = await createSession(twoMatMuls({ ...SHAPE, type, weights: next }));
  if (loaded.device !== device) throw new Error('the second session has another device');
  assertEqual((await infer(loaded.session, { x })).y, after, 'a model loaded with the new weights');

  const times = { createMs: Math.round(created - started), restMs: Math.round(performance.now() - created) };
  await loaded.session.release();
  await session.release();
  return {
    runtime,
    type,
    outputs: after.length,
    features: [...device.features].sort(),
    maxStorageBufferBindingSize: device.limits.maxStorageBufferBindingSize,
    times,
  };
}
