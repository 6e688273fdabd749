// The receiver on a page's own GPUDevice, in every runtime that has one: a real chain of patches in every layout, undo, challenges,
// and whatever goes wrong on the way.
import { GpuSession, PulseError, convertF16, init, readHeader } from '../../applier-wasm/npm/gpu.js';
import { openDevice, readBuffer } from '../runtimes/canary.mjs';
import { LAYOUTS, laidOut } from './layouts.mjs';
import { assert, equal, fails, readChain, sameBytes, tensorsOf } from './support.mjs';

const USAGE = () => GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;

/** A checkpoint's tensors in buffers of a device, bound to a session. */
class Engine {
  static async open(gpu, from, { layout = LAYOUTS.packed, step = from.step, ...options } = {}) {
    const engine = new Engine();
    engine.device = (await openDevice(gpu)).device;
    engine.layout = layout;
    engine.session = await GpuSession.open(engine.device, { step, ...options });
    engine.buffers = tensorsOf(from.file).map((tensor) => engine.#load(tensor, from.file));
    return engine;
  }

  #load({ name, dtype, shape, begin, end }, file) {
    const { bytes, place } = laidOut(file.subarray(begin, end), shape, this.layout, convertF16);
    const buffer = this.device.createBuffer({ size: bytes.byteLength, usage: USAGE() });
    this.device.queue.writeBuffer(buffer, 0, bytes);
    this.session.bind(name, { dtype, shape }, { buffer, ...place });
    return buffer;
  }

  /** Every byte of every buffer is as if it had been loaded from `file`. */
  async holds(file, message) {
    for (const [index, { name, shape, begin, end }] of tensorsOf(file).entries()) {
      const { bytes } = laidOut(file.subarray(begin, end), shape, this.layout, convertF16);
      sameBytes(await readBuffer(this.device, this.buffers[index]), bytes, `${message}: ${name}`);
    }
  }

  async flip(tensor, byte) {
    const start = byte - (byte % 4);
    const word = (await readBuffer(this.device, this.buffers[tensor])).slice(start, start + 4);
    word[byte % 4] ^= 4;
    this.device.queue.writeBuffer(this.buffers[tensor], start, word);
  }

  close() {
    this.session.free();
    this.device.destroy();
  }
}

async function testChain(gpu, chain, name, layout) {
  const engine = await Engine.open(gpu, chain[0], { layout });
  let changes = 0;
  let uploaded = 0;
  for (const [index, { step, file, patch, absolute }] of chain.slice(1).entries()) {
    const applied = await engine.session.apply(index % 4 === 3 ? absolute : patch);
    await engine.holds(file, `step ${step} in ${name}`);
    const { targetFingerprint, seed } = await readHeader(patch);
    equal(applied.fingerprint, targetFingerprint, 'fingerprint of the result');
    equal(await engine.session.fingerprint(seed), targetFingerprint, 'fingerprint on demand');
    equal(engine.session.step, step, 'step');
    assert(applied.submits <= 8, `${applied.submits} submits`);
    assert(applied.readBytes < 65536, `${applied.readBytes} bytes read back`);
    if (index % 4 !== 3) {
      changes += applied.changes;
      uploaded += applied.uploadedBytes;
    }
  }
  engine.close();
  return { steps: chain.length - 1, changes, uploadedPerChange: uploaded / changes };
}

/** What a receiver joins by, in every layout. */
async function testAnchor(gpu, [base, target]) {
  for (const [name, layout] of Object.entries(LAYOUTS)) {
    const engine = await Engine.open(gpu, target, { layout });
    const applied = await engine.session.apply(base.anchor);
    equal(applied.baseStep, undefined, 'nothing before');
    await engine.holds(base.file, `the anchor in ${name}`);
    await engine.session.apply(target.patch);
    await engine.holds(target.file, `the patch behind it in ${name}`);
    engine.close();
  }
}

async function testUndo(gpu, [base, target]) {
  const engine = await Engine.open(gpu, base);
  const { session } = engine;
  const calls = [];
  const hooks = { quiesce: () => calls.push('quiesce'), invalidate: () => calls.push('invalidate') };
  const before = await session.fingerprint(7n);
  for (const patch of [target.patch, target.absolute]) {
    const events = [];
    const run = session.apply(patch, hooks);
    for await (const event of run) events.push(event);
    const { times } = await run;
    equal(events.at(-1).phase, 'confirm', 'last phase');
    assert(times.verify > 0 && times.write >= 0 && times.confirm >= 0, 'times');
    await engine.holds(target.file, 'applied');
    assert((await session.fingerprint(9n)) !== before, 'a challenge in between');
    equal(await session.undo(hooks), base.step, 'step after undo');
    await engine.holds(base.file, 'taken back');
    equal(await session.fingerprint(7n), before, 'fingerprint after undo');
  }
  equal(calls.join(), 'quiesce,invalidate,quiesce,invalidate,quiesce,invalidate,quiesce,invalidate', 'hooks in order');
  await fails('misuse', () => session.undo());
  engine.close();
}

/** A patch of several batches is taken back as one of a single batch is, unless nothing may be kept, which is told. */
async function testBatches(gpu, [base, target]) {
  for (const [undoBytes, kept] of [[undefined, true], [0, false]]) {
    const engine = await Engine.open(gpu, base, { scratchBytes: 1 << 14, undoBytes });
    const { session } = engine;
    const events = [];
    const { undoBytes: bytes, submits } = await session.apply(target.patch, { onProgress: (event) => events.push(event) });
    assert(submits > 4, `${submits} submits are one batch`);
    equal(events.find(({ phase }) => phase === 'verified').undoBytes, bytes, 'told before the first write');
    equal(bytes !== undefined, kept, 'kept');
    await engine.holds(target.file, 'applied in batches');
    if (kept) equal(await session.undo(), base.step, 'step after undo');
    else await fails('misuse', () => session.undo());
    await engine.holds(kept ? base.file : target.file, 'after undo');
    engine.close();
  }
}

async function testRefusals(gpu, [base, target, next]) {
  const engine = await Engine.open(gpu, base);
  const { session } = engine;
  await fails('stale', () => session.apply(next.patch));
  await fails('truncated', () => session.apply(target.patch.subarray(0, target.patch.length - 1)));
  for (let byte = 0; byte < target.patch.length; byte += Math.ceil(target.patch.length / 40)) {
    const damaged = target.patch.slice();
    damaged[byte] ^= 0x40;
    let caught;
    await session.apply(damaged).catch((error) => (caught = error));
    assert(caught instanceof PulseError && caught.code !== 'internal', `byte ${byte}: ${caught}`);
  }
  await fails('limit', () => Engine.open(gpu, base, { limits: { headerBytes: 10 } }).then((small) => small.session.apply(target.patch)));
  const stop = new AbortController();
  stop.abort();
  equal((await fails('aborted', () => session.apply(target.patch, { signal: stop.signal }))).name, 'AbortError', 'name');
  await fails('hook', () => session.apply(target.patch, { quiesce: () => Promise.reject(new Error('busy')) }));
  await engine.flip(0, 5);
  await fails('wrong_base', () => session.apply(target.patch));
  await engine.flip(0, 5);
  await engine.holds(base.file, 'nothing was written');
  equal(session.poisoned, false, 'poisoned');
  await session.apply(target.patch);
  await engine.holds(target.file, 'the session goes on');
  await fails('misuse', () => Promise.all([session.apply(next.patch), session.apply(next.patch)]));
  engine.close();
  await fails('misuse', () => session.apply(next.patch));
}

async function testBindings(gpu, [base]) {
  const engine = await Engine.open(gpu, base);
  const { session, device } = engine;
  const buffer = device.createBuffer({ size: 64, usage: USAGE() });
  const bind = (spec, place) => async () => session.bind('new', spec, place);
  const spec = { dtype: 'BF16', shape: [4, 8] };
  await fails('binding', bind(spec, { buffer, offset: 2 }));
  await fails('binding', bind(spec, { buffer, offset: 1 }));
  await fails('binding', bind(spec, { buffer, layout: 'f32' }));
  await fails('binding', bind(spec, { buffer, stride: 7 }));
  await fails('binding', bind({ dtype: 'F32', shape: [2] }, { buffer, layout: 'f32' }));
  await fails('binding', bind({ dtype: 'F7', shape: [2] }, { buffer }));
  await fails('binding', bind(spec, { buffer: device.createBuffer({ size: 64, usage: GPUBufferUsage.STORAGE }) }));
  await fails('misuse', bind(spec, { buffer: {} }));
  await fails('misuse', bind(spec, { buffer, layout: 'q4' }));
  await fails('misuse', bind(spec, { buffer, offset: -1 }));
  await fails('misuse', bind({ dtype: 'BF16', shape: [0.5] }, { buffer }));
  await fails('misuse', () => GpuSession.open({}));
  engine.close();
}

/** The device goes at each submit in turn: old, new, or a session that says it is poisoned. */
async function testLoss(gpu, [base, target]) {
  const seen = { before: 0, poisoned: 0 };
  for (let at = 1; ; at++) {
    const engine = await Engine.open(gpu, base);
    const { device, session } = engine;
    let submits = 0;
    const submit = device.queue.submit.bind(device.queue);
    Object.defineProperty(device.queue, 'submit', {
      configurable: true,
      value(commands) {
        submits += 1;
        if (submits === at) device.destroy();
        submit(commands);
      },
    });
    let caught;
    await session.apply(target.patch).catch((error) => (caught = error));
    if (submits < at) {
      assert(!caught, `${caught}`);
      engine.close();
      break;
    }
    equal(caught?.code, 'device_lost', `lost at submit ${at}: ${caught?.message}`);
    seen[session.poisoned ? 'poisoned' : 'before'] += 1;
    session.free();
  }
  assert(seen.before > 0 && seen.poisoned > 0, JSON.stringify(seen));
  return seen;
}

/** What a page has put in a method's place may throw: that is an error, not an apply without an end. */
async function testThrowing(gpu, [base, target]) {
  for (const name of ['createShaderModule', 'createBindGroup', 'createCommandEncoder', 'popErrorScope', 'submit']) {
    const engine = await Engine.open(gpu, base);
    const owner = name === 'submit' ? engine.device.queue : engine.device;
    const value = () => {
      throw new Error(`${name} of the page`);
    };
    Object.defineProperty(owner, name, { configurable: true, value });
    let caught;
    await engine.session.apply(target.patch).catch((error) => (caught = error));
    assert(['gpu', 'device_lost'].includes(caught?.code), `${name} throws: ${caught}`);
    assert(caught.message.includes(`${name} of the page`), caught.message);
    engine.close();
  }
}

export async function run({ gpu, readFile }) {
  await init();
  const chain = await readChain(readFile);
  const layouts = {};
  for (const [name, layout] of Object.entries(LAYOUTS)) {
    // All of it where most engines are; elsewhere enough for one patch of the absolute profile.
    const steps = ['packed', 'f32', 'f16'].includes(name) ? chain : chain.slice(0, 5);
    layouts[name] = await testChain(gpu, steps, name, layout);
  }
  await testAnchor(gpu, chain);
  await testUndo(gpu, chain);
  await testBatches(gpu, chain);
  await testRefusals(gpu, chain);
  await testBindings(gpu, chain);
  await testThrowing(gpu, chain);
  return { layouts, loss: await testLoss(gpu, chain) };
}
