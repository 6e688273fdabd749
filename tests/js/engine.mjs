// An engine that is not ours: onnxruntime-web computes with weights in its own device's buffers, patches go into those buffers, and
// its next run gives, bit for bit, what two models give that were loaded with the target weights: the same graph with new buffers, and
// a model file with the weights in it. The latter may be computed by other kernels; onnxruntime-web's give the same sums.
import { GpuSession, convertF16, init } from '../../applier-wasm/npm/index.js';
import { bufferTensor, createSession, createWeightBuffer, infer, twoMatMuls, valueTensor } from '../runtimes/ort.mjs';
import { laidOut } from './layouts.mjs';
import { assert, equal, fails, readChain, sameBytes, tensorsOf } from './support.mjs';

const ROWS = 5;

/**
 * y = (x * transpose(q)) * transpose(k). The engine keeps q as its MatMul reads it, columns after columns, and k as the checkpoint
 * has it, transposed by a node of the graph. All other tensors are packed: a patch's segments mix tensors.
 */
const WEIGHTS = {
  w1: { tensor: 'model.layers.14.self_attn.q_proj.weight', transposed: true },
  w2: { tensor: 'model.layers.14.self_attn.k_proj.weight', transposed: false },
};

/** Element types of the engine's weights: the layout that each is for us, and the array of its values. */
const FORMATS = {
  float32: { layout: 'f32', view: (bytes) => new Float32Array(bytes.buffer) },
  // Where the adapter has shader-f16: lavapipe, in Deno.
  float16: { layout: 'f16', view: (bytes) => new Float16Array(bytes.buffer), only: 'deno' },
};

/** Between -1 and 1, with all bits of a fraction in use: other orders of summation give other results. */
function activations(count) {
  let state = 7;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}

/** `{ w1, w2 }`: what `file` holds, as the engine's arrays. */
function weightsOf(file, { layout, view }) {
  const tensors = new Map(tensorsOf(file).map((tensor) => [tensor.name, tensor]));
  const load = ([name, { tensor, transposed }]) => {
    const { shape, begin, end } = tensors.get(tensor);
    const { bytes } = laidOut(file.subarray(begin, end), shape, { layout, transposed }, convertF16);
    // Without the noise after the cells.
    return [name, view(bytes).subarray(0, shape[0] * shape[1])];
  };
  return Object.fromEntries(Object.entries(WEIGHTS).map(load));
}

/** The engine: a graph whose weights are inputs, and what a run of it gives with given buffers. */
class Engine {
  static async create(type, file) {
    const engine = new Engine();
    const shapeOf = ({ tensor }) => tensorsOf(file).find(({ name }) => name === tensor).shape;
    const [middle, inner] = shapeOf(WEIGHTS.w1);
    const [columns] = shapeOf(WEIGHTS.w2);
    engine.type = type;
    engine.shape = { type, rows: ROWS, inner, middle, columns };
    engine.x = valueTensor(type, activations(ROWS * inner), [ROWS, inner]);
    Object.assign(engine, await createSession(twoMatMuls(engine.shape)));
    return engine;
  }

  buffers({ w1, w2 }) {
    return { w1: createWeightBuffer(this.device, w1), w2: createWeightBuffer(this.device, w2) };
  }

  /** The bytes of y. */
  run({ w1, w2 }, session = this.session) {
    const { inner, middle, columns } = this.shape;
    return this.#infer(session, {
      w1: bufferTensor(w1, this.type, [inner, middle]),
      w2: bufferTensor(w2, this.type, [columns, middle]),
    });
  }

  async #infer(session, weights) {
    const { y } = await infer(session, { x: this.x, ...weights });
    return new Uint8Array(y.buffer, y.byteOffset, y.byteLength);
  }

  /** The bytes of y from a session of its own over the same graph, with the weights in new buffers. */
  async fresh(weights) {
    const { session, device } = await createSession(twoMatMuls(this.shape));
    equal(device, this.device, 'the device of another session');
    const buffers = this.buffers(weights);
    const y = await this.run(buffers, session);
    for (const buffer of Object.values(buffers)) buffer.destroy();
    await session.release();
    return y;
  }

  /** The bytes of y from a model file that has the weights in it. */
  async loaded(weights) {
    const { session } = await createSession(twoMatMuls({ ...this.shape, weights }));
    const y = await this.#infer(session, {});
    await session.release();
    return y;
  }
}

/** Binds the engine's buffers as they are, and every other tensor of `file` packed. */
function bindAll(session, device, file, buffers, layout) {
  const names = Object.fromEntries(Object.entries(WEIGHTS).map(([weight, { tensor }]) => [tensor, weight]));
  for (const { name, dtype, shape, begin, end } of tensorsOf(file)) {
    const cells = file.subarray(begin, end);
    const weight = names[name];
    const place = weight
      ? { ...laidOut(cells, shape, { layout, transposed: WEIGHTS[weight].transposed }, convertF16).place, buffer: buffers[weight] }
      : { buffer: createWeightBuffer(device, cells) };
    session.bind(name, { dtype, shape }, place);
  }
}

const differ = (one, other) => one.some((byte, index) => byte !== other[index]);

async function testFormat(type, chain) {
  const format = FORMATS[type];
  const engine = await Engine.create(type, chain[0].file);
  const errors = [];
  const note = ({ error }) => errors.push(error.message);
  engine.device.addEventListener('uncapturederror', note);
  const buffers = engine.buffers(weightsOf(chain[0].file, format));
  const session = await GpuSession.open(engine.device, { step: chain[0].step });
  bindAll(session, engine.device, chain[0].file, buffers, format.layout);

  const calls = [];
  const hooks = {
    quiesce: async () => {
      calls.push('quiesce');
      await engine.device.queue.onSubmittedWorkDone();
    },
    invalidate: () => void calls.push('invalidate'),
  };
  const times = { apply: 0, run: 0 };
  const timed = async (name, work) => {
    const began = performance.now();
    const result = await work();
    times[name] += performance.now() - began;
    return result;
  };
  const outputs = [];
  let changes = 0;
  for (const { step, file, patch } of chain) {
    if (patch) changes += (await timed('apply', () => session.apply(patch, hooks))).changes;
    const y = await timed('run', () => engine.run(buffers));
    const weights = weightsOf(file, format);
    sameBytes(y, await engine.fresh(weights), `step ${step}: patched in place, and loaded into new buffers`);
    sameBytes(y, await engine.loaded(weights), `step ${step}: patched in place, and loaded from a model file`);
    if (outputs.length > 0) assert(differ(y, outputs.at(-1)), `step ${step} gives what the step before gives`);
    outputs.push(y);
  }
  equal(await session.undo(hooks), chain.at(-2).step, 'step after undo');
  sameBytes(await engine.run(buffers), outputs.at(-2), 'the last patch taken back');
  await session.apply(chain.at(-1).absolute, hooks);
  sameBytes(await engine.run(buffers), outputs.at(-1), 'the last step again, by absolute values');
  equal(calls.join(), Array(chain.length + 1).fill('quiesce,invalidate').join(), 'hooks');

  // A patch that is refused leaves the engine with what it had.
  await fails('stale', () => session.apply(chain[1].patch, hooks));
  sameBytes(await engine.run(buffers), outputs.at(-1), 'after a patch that was refused');
  equal(errors.join(), '', 'errors on the device');
  engine.device.removeEventListener('uncapturederror', note);
  session.free();
  await engine.session.release();
  return { steps: chain.length - 1, changes, applyMs: Math.round(times.apply), runMs: Math.round(times.run) };
}

export async function run({ runtime, readFile }) {
  await init();
  const chain = await readChain(readFile);
  const formats = {};
  const here = Object.keys(FORMATS).filter((type) => (FORMATS[type].only ?? runtime) === runtime);
  for (const type of here) formats[type] = await testFormat(type, chain);
  return { runtime, formats };
}
