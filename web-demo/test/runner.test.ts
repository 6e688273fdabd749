import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

// The runner alone is tested here, with a receiver that adds one to every cell; the real one runs in
// `cargo xtask demo --headless`.
vi.mock('pulse-applier', () => ({
  readHeader: async (patch: Uint8Array) => {
    if (patch[1] !== 7) throw Object.assign(new Error('hash'), { code: 'damaged' });
    return { seed: 0n, targetFingerprint: String((patch[0] ?? 0) + 1) };
  },
  CpuSession: class {},
}));

import { sha256 } from '../src/bytes.js';
import type { Receiver } from '../src/receiver/receiver.js';
import { Runner } from '../src/runner.js';
import type { Settings } from '../src/state.js';

const SETTINGS: Settings = { folder: new URL('http://host/chain/'), layout: 'packed', cpuOnly: false };
const cellsOf = (step: number) => Uint8Array.of(step, 0, step, 0);

/** Holds two cells of value `held`; wrong once `slip` is set. */
class Adder implements Receiver {
  readonly kind = 'gpu';
  readonly layout = 'packed';
  readonly canUndo = true;
  held = 0;
  slip = false;
  forgetful = false;
  freed = false;

  async apply(patch: Uint8Array) {
    const baseStep = patch[0] ?? 0;
    if (baseStep !== this.held) throw Object.assign(new Error('not its base'), { code: 'stale' });
    this.held += 1;
    const times = { verify: 1, write: 1, confirm: 1 };
    const figures = { uploadedBytes: 8, readBytes: 8, submits: 3, dispatches: 9, scratchBytes: 64, times, stall: 1 };
    const fingerprint = String(this.held);
    return { baseStep, targetStep: this.held, changes: 2, cells: 2, fingerprint, patchBytes: 2, ...figures };
  }

  async undo() {
    if (this.forgetful) return false;
    this.held -= 1;
    return true;
  }

  async fingerprint() {
    return String(this.held);
  }

  async readBack() {
    return [cellsOf(this.held + (this.slip ? 1 : 0))];
  }

  free() {
    this.freed = true;
  }
}

function baseFile(): Uint8Array {
  const header = new TextEncoder().encode('{"t":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}');
  return Uint8Array.of(header.length, 0, 0, 0, 0, 0, 0, 0, ...header, ...cellsOf(0));
}

const files = new Map<string, Uint8Array>();

beforeEach(async () => {
  const patches = [];
  for (const from of [0, 1, 2]) {
    files.set(`${from}.pulse`, Uint8Array.of(from, 7));
    patches.push({ file: `${from}.pulse`, from, to: from + 1, bytes: 2, sha256OfTarget: await sha256([cellsOf(from + 1)]) });
  }
  const manifest = { name: 'm', notice: '', base: 'base.safetensors', baseStep: 0, patches };
  files.set('chain.json', new TextEncoder().encode(JSON.stringify(manifest)));
  files.set('base.safetensors', baseFile());
  vi.stubGlobal('fetch', async (url: URL) => {
    const body = files.get(url.pathname.split('/').at(-1) ?? '');
    return body ? new Response(body.slice()) : new Response(null, { status: 404 });
  });
});

afterEach(() => vi.unstubAllGlobals());

async function loaded() {
  const receiver = new Adder();
  let lose: (reason: string) => void = () => {};
  const open = async () => {
    const lost = new Promise<string>((resolve) => (lose = resolve));
    return { receiver, lost, device: undefined, noGpu: undefined };
  };
  const runner = new Runner(SETTINGS, open, () => {});
  await runner.load(SETTINGS);
  return { runner, receiver, state: runner.state, lose: (reason: string) => lose(reason) };
}

describe('Runner', () => {
  it('goes to the end, every step checked', async () => {
    const { runner, state } = await loaded();
    await runner.start();
    expect(state.status).toBe('finished');
    expect(state.records.map(({ targetStep, bitsEqual, fingerprint }) => [targetStep, bitsEqual, fingerprint])).toEqual([
      [1, true, '1'],
      [2, true, '2'],
      [3, true, '3'],
    ]);
  });

  it('pauses after the step that is being applied', async () => {
    const { runner, state } = await loaded();
    const run = runner.start();
    runner.pause();
    await run;
    expect([state.status, state.records.length]).toEqual(['ready', 1]);
  });

  it('takes a step back once, and forward again', async () => {
    const { runner, receiver, state } = await loaded();
    await runner.step();
    await runner.step();
    await runner.undo();
    await runner.undo();
    expect([receiver.held, state.records.length, state.undone]).toEqual([1, 1, 1]);
    await runner.start();
    expect(state.status).toBe('finished');
  });

  it('keeps a step that the receiver cannot take back', async () => {
    const { runner, receiver, state } = await loaded();
    await runner.step();
    receiver.forgetful = true;
    await runner.undo();
    expect([state.status, state.records.length, state.undone, state.undoRefused]).toEqual(['ready', 1, 0, true]);
    await runner.step();
    expect([state.records.length, state.undoable, state.undoRefused]).toEqual([2, true, false]);
  });

  it('refuses a damaged patch, and goes on when it is fetched again', async () => {
    const { runner, receiver, state } = await loaded();
    files.set('1.pulse', Uint8Array.of(1, 8));
    await runner.start();
    expect([state.status, state.failure?.code, receiver.held]).toEqual(['failed', 'damaged', 1]);
    files.set('1.pulse', Uint8Array.of(1, 7));
    await runner.start();
    expect([state.status, state.failure]).toEqual(['finished', undefined]);
  });

  it('ends when bits differ, though fingerprints do not', async () => {
    const { runner, receiver, state } = await loaded();
    receiver.slip = true;
    await runner.start();
    expect([state.status, state.failure?.code, state.records.length]).toEqual(['failed', 'not_identical', 1]);
    await runner.start();
    expect(state.records.length).toBe(1);
  });

  it('ends when the device is lost, and starts over', async () => {
    const { runner, receiver, state, lose } = await loaded();
    await runner.step();
    lose('unplugged');
    await vi.waitFor(() => expect(state.failure).toMatchObject({ code: 'device_lost', message: 'unplugged' }));
    await runner.load(SETTINGS);
    expect([receiver.freed, state.status, state.records.length]).toEqual([true, 'ready', 0]);
  });

  it('names a file that is not there', async () => {
    files.delete('base.safetensors');
    const { state } = await loaded();
    expect(state.failure).toMatchObject({ code: 'network', message: '/chain/base.safetensors: HTTP status 404' });
  });
});
