// The receiver over memory, in every runtime: a real chain of patches, every kind of source, stops and failures.
import * as pulse from '../../applier-wasm/npm/index.js';
import { testHttp } from './http.mjs';
import { SOURCES, testServers, withServer } from './sources.mjs';
import { assert, equal, fails, readChain, sameBytes, tensorsOf } from './support.mjs';

const { CpuSession, PulseError, init, readHeader } = pulse;

/** A session over a copy of a checkpoint's file, whose bytes are then those of another. */
function open(from, { step = from.step, limits, undoBytes } = {}) {
  const bytes = from.file.slice();
  const session = new CpuSession({ step, limits, undoBytes });
  for (const { name, dtype, shape, begin } of tensorsOf(bytes)) session.bind(name, { dtype, shape }, bytes, { offset: begin });
  return { session, bytes };
}

/** One session over the whole chain; the source is of another kind at each step. */
async function testChain(chain) {
  const { session, bytes } = open(chain[0]);
  const kinds = Object.keys(SOURCES);
  let changes = 0;
  for (const [index, { step, file, patch }] of chain.slice(1).entries()) {
    const kind = kinds[index % kinds.length];
    const applied = await session.apply(SOURCES[kind](patch));
    sameBytes(bytes, file, `step ${step} from ${kind}`);
    equal(session.step, step, 'step');
    equal(applied.targetStep, step, 'targetStep');
    equal(applied.baseStep, step - 1, 'baseStep');
    equal(applied.patchBytes, patch.length, 'patchBytes');
    const { seed, targetFingerprint } = await readHeader(patch);
    equal(applied.fingerprint, targetFingerprint, 'fingerprint of the result');
    equal(session.fingerprint(seed), targetFingerprint, 'fingerprint on demand');
    changes += applied.changes;
  }
  assert(session.fingerprint() !== session.fingerprint(1n), 'the seed counts');
  session.free();
  return { steps: chain.length - 1, changes };
}

/** What a receiver joins by: over whatever was there, and then the patches that follow. */
async function testAnchor([base, target]) {
  const { session, bytes } = open({ ...base, file: base.file.slice() }, { step: undefined });
  for (const { begin, end } of tensorsOf(base.file)) bytes.fill(0x5a, begin, end);
  const header = await readHeader(base.anchor);
  equal(header.baseStep, undefined, 'an anchor has no base');
  assert(header.segments.every(({ profile }) => profile === 'dense'), 'dense');
  assert(base.anchor.length < 0.7 * base.file.length, `${base.anchor.length} bytes for ${base.file.length}`);
  const applied = await session.apply(base.anchor);
  equal(applied.baseStep, undefined, 'nothing before');
  equal(applied.fingerprint, header.targetFingerprint, 'fingerprint of the anchor');
  sameBytes(bytes, base.file, 'the anchor');
  equal(session.step, base.step, 'step of the anchor');
  await session.apply(target.patch);
  sameBytes(bytes, target.file, 'the patch behind it');
  session.free();
}

async function testSources([base, target]) {
  const make = () => ({ ...open(base), expected: target.file });
  for (const [kind, source] of Object.entries(SOURCES)) {
    const { session, bytes, expected } = make();
    await session.apply(source(target.patch));
    sameBytes(bytes, expected, kind);
    session.free();
  }
  await testServers(target.patch, make);
  await testHttp(target.patch, make);
  for (const wrong of [undefined, null, 7, {}, { read: 7 }]) await fails('misuse', () => make().session.apply(wrong));
  await fails('source', () => make().session.apply(new Response(null, { status: 404 })));
  await fails('source', () => make().session.apply({ read: () => Promise.reject(new Error('mine')) })).then((error) =>
    equal(error.cause.message, 'mine', 'cause'),
  );
}

async function testEvents([base, target]) {
  const { session } = open(base);
  const seen = [];
  const applying = session.apply(target.patch, { onProgress: (event) => seen.push(event) });
  const looped = [];
  for await (const event of applying) looped.push(event);
  const applied = await applying;
  assert(applied.changes > 0, 'a result after the loop');
  assert(looped.length > 0 && looped.every((event) => seen.includes(event)), 'the loop gives the events');
  const last = looped.at(-1);
  equal(last.phase, 'write', 'last phase');
  equal(last.done, last.total, 'all done');
  let caught;
  const failing = session.apply(target.patch);
  try {
    for await (const _ of failing);
  } catch (error) {
    caught = error;
  }
  equal(caught?.code, 'stale', 'a loop throws what the apply throws');
  session.free();
}

/** An abort at the nth read of the source, before and during; hooks that fail; nothing is written by any. */
async function testStops([base, target]) {
  const unchanged = ({ session, bytes }, message) => {
    sameBytes(bytes, base.file, message);
    equal(session.step, base.step, message);
    equal(session.poisoned, false, message);
  };
  let reads = 0;
  for (let stopAt = 0; ; stopAt++) {
    const opened = open(base);
    const stop = new AbortController();
    if (stopAt === 0) stop.abort();
    let count = 0;
    const read = async (offset, length) => {
      if (++count === stopAt) stop.abort();
      return target.patch.slice(offset, offset + length);
    };
    const applying = opened.session.apply({ read }, { signal: stop.signal });
    if (reads > 0 && stopAt > reads) {
      await applying;
      sameBytes(opened.bytes, target.file, 'never stopped');
      break;
    }
    const error = await fails('aborted', () => applying, `abort at read ${stopAt}`);
    equal(error.name, 'AbortError', 'name');
    unchanged(opened, `abort at read ${stopAt}`);
    reads = (await readHeader(target.patch)).segments.filter(({ bytes }) => bytes > 0).length + 2;
  }
  const never = open(base);
  const later = new AbortController();
  setTimeout(() => later.abort(), 30);
  await fails('aborted', () => never.session.apply({ read: () => new Promise(() => {}) }, { signal: later.signal }));
  unchanged(never, 'a source that never answers');
  await never.session.apply(target.patch);
  sameBytes(never.bytes, target.file, 'works after a stop');

  for (const hook of ['quiesce', 'onProgress']) {
    const opened = open(base);
    const error = await fails('hook', () => opened.session.apply(target.patch, { [hook]: mine }));
    equal(error.cause.message, 'mine', hook);
    unchanged(opened, hook);
  }
  const late = open(base);
  const log = [];
  const stop = new AbortController();
  await late.session.apply(target.patch, {
    signal: stop.signal,
    quiesce: async () => log.push('quiesce') && stop.abort(),
    invalidate: () => void log.push('invalidate'),
  });
  equal(log.join(), 'quiesce,invalidate', 'hooks');
  sameBytes(late.bytes, target.file, 'an abort after quiesce waits until the weights are whole');
}

function mine() {
  throw new Error('mine');
}

async function testFailures([base, target]) {
  const opened = open(base);
  const { session, bytes } = opened;
  const unchanged = (message) => sameBytes(bytes, base.file, message);
  const step = Math.max(1, Math.floor(target.patch.length / 150));
  for (let place = 0; place < target.patch.length; place += step) {
    const flipped = target.patch.slice();
    flipped[place] ^= 1 << (place % 8);
    await session.apply(flipped).then(
      () => assert(false, `a flip at byte ${place} was taken`),
      ({ code }) => assert(['damaged', 'unsupported', 'truncated', 'limit'].includes(code), `byte ${place}: ${code}`),
    );
  }
  await fails('truncated', () => session.apply(target.patch.slice(0, -1)));
  await fails('damaged', () => session.apply(new Uint8Array(100)));
  await fails('stale', () => open(base, { step: base.step + 5 }).session.apply(target.patch));
  await fails('limit', () => open(base, { limits: { segments: 0 } }).session.apply(target.patch));
  unchanged('after damage');
  const { begin } = tensorsOf(bytes)[0];
  bytes[begin] ^= 1;
  await fails('wrong_base', () => session.apply(target.patch));
  bytes[begin] ^= 1;
  unchanged('after a wrong base');
  const first = session.apply(target.patch);
  await fails('misuse', () => session.apply(target.patch), 'two at once');
  await fails('misuse', async () => session.fingerprint(), 'a fingerprint meanwhile');
  await first;
  sameBytes(bytes, target.file, 'the first of two');
  session.free();
  session.free();
  await fails('misuse', () => session.apply(target.patch), 'after free');

  const again = open(target, { step: base.step });
  await again.session.apply(target.absolute);
  sameBytes(again.bytes, target.file, 'an absolute patch twice');
}

/** What is applied can be taken back, or it is told before that it cannot; a patch that is refused costs nothing of that. */
async function testUndo([base, target, next]) {
  const { session, bytes } = open(base);
  const events = [];
  const applied = await session.apply(target.patch, { onProgress: (event) => events.push(event) });
  const verified = events.find(({ phase }) => phase === 'verified');
  equal(verified.undoBytes, applied.undoBytes, 'what is kept');
  assert(applied.undoBytes > 0 && verified.changes === applied.changes, 'told before the first write');
  equal(session.undoStep, base.step, 'undoStep');
  await fails('stale', () => session.apply(target.patch));
  await fails('truncated', () => session.apply(next.patch.slice(0, -1)));
  await fails('hook', () => session.apply(next.patch, { quiesce: mine }));
  await fails('hook', () => session.undo({ quiesce: mine }));
  equal(await session.undo(), base.step, 'the step before');
  sameBytes(bytes, base.file, 'taken back');
  equal(session.step, base.step, 'step');
  await fails('misuse', () => session.undo(), 'twice');
  const without = open(base, { undoBytes: 0 });
  equal((await without.session.apply(target.patch)).undoBytes, undefined, 'nothing is kept');
  await fails('misuse', () => without.session.undo(), 'nothing was kept');
  sameBytes(without.bytes, target.file, 'and nothing was taken back');
}

const HTML = '<!doctype html><title>Sign in</title>';

/** A caller's mistake is its own, and the session is as it was. */
async function testMistakes([base, target]) {
  const { session, bytes } = open(base);
  const detached = target.patch.slice();
  structuredClone(detached.buffer, { transfer: [detached.buffer] });
  const locked = new Blob([target.patch]).stream();
  locked.getReader();
  const used = new Response(target.patch);
  await used.arrayBuffer();
  const wrong = { detached, buffer: detached.buffer, locked, used, path: 'relative.pulse', words: { read: async () => 'words' } };
  for (const [kind, source] of Object.entries(wrong)) {
    if (kind === 'path' && globalThis.location) continue;
    await fails('misuse', () => session.apply(source), kind);
    equal(session.poisoned, false, kind);
    equal(session.step, base.step, kind);
  }
  const tensors = tensorsOf(bytes);
  const two = new CpuSession();
  two.bind('a', { dtype: 'BF16', shape: [4] }, bytes, { offset: 0 });
  const error = await fails('binding', async () => two.bind('b', { dtype: 'BF16', shape: [4] }, bytes.subarray(6), { offset: 0 }), 'tied');
  assert(error.message.includes('overlaps that of a'), error.message);
  two.bind('b', { dtype: 'BF16', shape: [4] }, bytes.subarray(8));
  assert(tensors.length > 0, 'tensors');
  for (const source of ['https://name:secret@patches.invalid/26.pulse', new Request('https://patches.invalid/26.pulse')]) {
    const refused = await fails('misuse', () => session.apply(source), 'neither is fetched');
    assert(!refused.message.includes('secret'), refused.message);
  }
  for (const source of [new Blob([HTML]), new Response(HTML), new TextEncoder().encode(HTML)]) {
    const refused = await fails('source', () => session.apply(source), 'a page');
    assert(refused.message.includes('looks like HTML'), refused.message);
  }
  // Whoever leaves the loop stops the apply.
  const later = (offset, length) =>
    new Promise((resolve) => setTimeout(() => resolve(target.patch.slice(offset, offset + length)), 5));
  const left = session.apply({ read: later });
  for await (const _ of left) break;
  await fails('aborted', () => left);
  sameBytes(bytes, base.file, 'a loop that was left');
  const applying = session.apply({ read: async (offset, length) => target.patch.slice(offset, offset + length) }, { quiesce: mine });
  for await (const { phase } of applying) if (phase === 'verified') break;
  await fails('hook', () => applying, 'a failure behind a loop that was left');
  await session.apply(target.patch);
  sameBytes(bytes, target.file, 'and the session goes on');
}

/** Arguments of every wrong kind: an error with a code, never a trap. */
async function testArguments([base, target]) {
  const { session } = open(base);
  const four = new Uint8Array(4);
  const spec = { dtype: 'BF16', shape: [2] };
  for (const wrong of [[7, spec, four], ['a', undefined, four], ['a', { dtype: 7, shape: [2] }, four], ['a', spec, [0, 0, 0, 0]],
    ['a', { dtype: 'BF16', shape: [-1] }, four], ['a', { dtype: 'BF16', shape: [0.5] }, four], ['a', { dtype: 'BF16', shape: 2 }, four],
    ['a', { dtype: 'BF16', shape: [2 ** 53] }, four], ['a', spec, four, { offset: -1 }]]) {
    await fails('misuse', async () => session.bind(...wrong));
  }
  for (const [wrong, offset] of [[{ dtype: 'BF17', shape: [2] }, 0], [spec, 1], [spec, 5], [{ dtype: 'BF16', shape: [3] }, 0],
    [{ dtype: 'F64', shape: [2 ** 50, 2 ** 50] }, 0], [{ dtype: 'F4', shape: [3] }, 0]]) {
    await fails('binding', async () => session.bind('a', wrong, four, { offset }));
  }
  await fails('binding', async () => session.bind(tensorsOf(base.file)[0].name, spec, four), 'bound twice');
  for (const step of [-1, 0.5, NaN, '1', 2 ** 53]) await fails('misuse', async () => new CpuSession({ step }));
  await fails('misuse', async () => new CpuSession({ limits: { nothing: 1 } }));
  for (const seed of [1, -1n, 1n << 64n]) await fails('misuse', async () => session.fingerprint(seed));
  for (const options of [{ signal: {} }, { quiesce: 7 }, { onProgress: 'x' }]) await fails('misuse', () => session.apply(target.patch, options));
  await fails('mismatch', () => new CpuSession().apply(target.patch), 'nothing is bound');

  session.bind('more', spec, four);
  await fails('mismatch', () => session.apply(target.patch), 'a tensor that the patch lacks');
  // Only what is bound is looked at: here the memory that went away.
  const gone = new CpuSession();
  const memory = new ArrayBuffer(4);
  gone.bind('a', spec, new Uint8Array(memory));
  structuredClone(memory, { transfer: [memory] });
  await fails('misuse', async () => gone.fingerprint(), 'detached memory');
}

/** `wasm` is a WebAssembly.Module where the runtime compiles none from bytes. */
export async function run({ runtime, readFile, log }, wasm) {
  await fails('misuse', async () => new CpuSession(), 'before init');
  await fails('misuse', () => init(7));
  await fails('init', () => init(new Uint8Array(3)), 'no module');
  // What Vite's dev server answers where it has moved the script away from its module.
  const page = () => new Response(HTML, { headers: { 'content-type': 'text/html' } });
  const moved = await withServer(page, () => fails('init', () => init('https://pages.invalid/pulse.wasm')));
  assert(moved.message.includes('optimizeDeps.exclude') && moved.message.includes('text/html'), moved.message);
  await Promise.all([init(wasm), init(wasm)]);
  assert((await fails('misuse', async () => new CpuSession({ step: -1 }))) instanceof PulseError, 'PulseError');
  const chain = await readChain(readFile);
  const result = await testChain(chain);
  for (const test of [testAnchor, testSources, testEvents, testUndo, testMistakes, testStops, testFailures, testArguments]) {
    log(`${runtime}: ${test.name}`);
    await test(chain);
  }
  return { runtime, ...result };
}
