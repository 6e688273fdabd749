// The READMEs' examples of receivers, run as they are printed. A block of js says before it what it needs:
//
//     <!-- tour: gpu -->   `engine`: a device, weights in its buffers, pause() and resume()
//     <!-- tour: cpu -->   `tensors`: weights in memory, each { name, dtype, shape, bytes }
//
// Patches come from example.org. What a line prints is in the comment behind it. Afterwards the weights are the target's, to the bit.
import * as pulse from '../../applier-wasm/npm/index.js';
import { openDevice, readBuffer } from '../runtimes/canary.mjs';
import { LAYOUTS, laidOut } from './layouts.mjs';
import { ranged } from './sources.mjs';
import { assert, equal, readChain, sameBytes, tensorsOf } from './support.mjs';

const TOURS = { 'README.md': ['gpu', 'cpu'], 'applier-wasm/npm/README.md': ['gpu', 'cpu'] };
const BASE_STEP = 25;
const PATCH = /^https:\/\/example\.org\/(\d+)\.pulse$/;

const AsyncFunction = (async () => {}).constructor;

/** `{ kind, code }` of every block of js; each must have a marker. */
function blocksOf(text, file) {
  const blocks = [...text.matchAll(/(?:<!-- tour: (\w+) -->\n+)?^```js\n(.*?)^```$/gms)].map(([, kind, code]) => ({ kind, code }));
  equal(blocks.map(({ kind }) => kind).join(), TOURS[file].join(), `${file}: markers of its blocks of js`);
  return blocks;
}

/** The block as the body of a function: what it imports, it finds in `modules`. */
function bodyOf(code) {
  const body = code.replace(/^import (.+) from ('[^']+');$/gm, (_, names, from) =>
    names.startsWith('{') ? `const ${names} = modules[${from}];` : `const ${names} = modules[${from}].default;`,
  );
  return `'use strict';\n${body}`;
}

/** Runs `work` with example.org answering from `chain`; everything else is fetched as ever. */
async function withPatches(chain, work) {
  const real = globalThis.fetch;
  let patches = 0;
  globalThis.fetch = async (url, options) => {
    const [, step] = PATCH.exec(url) ?? [];
    if (!step) return real(url, options);
    patches += 1;
    const { patch } = chain.find((link) => link.step === Number(step));
    const [, start, end] = /^bytes=(\d+)-(\d+)$/.exec(new Headers(options?.headers).get('range'));
    return ranged(patch)(Number(start), Number(end) + 1);
  };
  try {
    await work();
  } finally {
    globalThis.fetch = real;
  }
  assert(patches > 0, 'no patch was fetched');
}

/** Weights in buffers, in all layouts in turn. */
class Engine {
  calls = [];

  static async open(gpu, file) {
    const engine = new Engine();
    engine.device = (await openDevice(gpu)).device;
    // f16 takes exceptions, which the tour leaves out.
    const layouts = Object.values(LAYOUTS).filter(({ layout }) => layout !== 'f16');
    engine.weights = tensorsOf(file).map(({ name, dtype, shape, begin, end }, index) => {
      const layout = layouts[index % layouts.length];
      const { bytes, place } = laidOut(file.subarray(begin, end), shape, layout);
      const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
      const buffer = engine.device.createBuffer({ size: bytes.byteLength, usage });
      engine.device.queue.writeBuffer(buffer, 0, bytes);
      return { name, dtype, shape, place: { buffer, ...place }, content: (cells) => laidOut(cells, shape, layout).bytes };
    });
    return engine;
  }

  pause() {
    this.calls.push('pause');
    return this.device.queue.onSubmittedWorkDone();
  }

  resume() {
    this.calls.push('resume');
  }

  async check(file, message) {
    equal(this.calls.join(), 'pause,resume', `${message}: calls of the engine`);
    for (const [index, { name, begin, end }] of tensorsOf(file).entries()) {
      const { place, content } = this.weights[index];
      sameBytes(await readBuffer(this.device, place.buffer), content(file.subarray(begin, end)), `${message}: ${name}`);
    }
    this.device.destroy();
  }
}

/** `{ given, check }` of each kind: names for the block, and whether what they name has become `file`. */
const KINDS = {
  async gpu({ gpu }, base) {
    const engine = await Engine.open(gpu, base);
    return { given: { engine }, check: (file, message) => engine.check(file, message) };
  },
  async cpu(_, base) {
    const tensors = tensorsOf(base).map(({ name, dtype, shape, begin, end }) => ({ name, dtype, shape, bytes: base.slice(begin, end) }));
    const check = (file, message) => {
      for (const [index, { name, begin, end }] of tensorsOf(file).entries())
        sameBytes(tensors[index].bytes, file.subarray(begin, end), `${message}: ${name}`);
    };
    return { given: { tensors }, check };
  },
};

async function runBlock({ kind, code }, context, chain, modules, message) {
  const from = chain.findIndex(({ step }) => step === BASE_STEP);
  const { given, check } = await KINDS[kind](context, chain[from].file);
  const printed = [];
  const console = { log: (...values) => printed.push(values.join(' ')) };
  const names = { modules, console, ...given };
  const evaluate = context.evaluate ?? ((parameters, body) => new AsyncFunction(...parameters, body));
  const block = evaluate(Object.keys(names), bodyOf(code));
  await withPatches(chain, () => block(...Object.values(names)));
  await check(chain[from + 1].file, message);
  const promised = [...code.matchAll(/console\.log\(.*\); \/\/ (.*)$/gm)].map(([, output]) => output);
  assert(promised.length > 0, `${message}: no line says what it prints`);
  for (const output of promised) assert(printed.includes(output), `${message}: printed ${JSON.stringify(printed)}, not ${output}`);
}

/** `wasm` is a WebAssembly.Module where the runtime compiles none from bytes. */
export async function run(context, wasm) {
  const { runtime, readFile } = context;
  // The line that the README has for workerd.
  if (wasm) await pulse.init(wasm);
  const modules = { 'pulse-applier': pulse };
  const chain = await readChain(readFile);
  const ran = [];
  for (const file of Object.keys(TOURS)) {
    const text = new TextDecoder().decode(await readFile(file));
    for (const block of blocksOf(text, file)) {
      // Without a GPU, as in workerd, the blocks for memory are left.
      if (block.kind === 'gpu' && !context.gpu) continue;
      const message = `${file}, ${block.kind}`;
      await runBlock(block, context, chain, modules, message);
      ran.push(message);
    }
  }
  return { runtime, ran };
}
