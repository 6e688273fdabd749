import { readHeader } from 'pulse-applier';

import { fetchBytes, sha256 } from './bytes.js';
import { hashAt, loadChain, stepAt, type Chain } from './chain.js';
import { DemoError, describeFailure } from './errors.js';
import type { PatchEntry } from './manifest.js';
import { CpuReceiver } from './receiver/cpu.js';
import type { Receiver } from './receiver/receiver.js';
import { canStep, isIdentical, type Equality, type Settings, type State, type StepRecord } from './state.js';

/** Makes the receiver that the settings ask for; tells the state what it found. */
export type OpenReceiver = (chain: Chain, settings: Settings) => Promise<Opened>;

export interface Opened extends Pick<State, 'device' | 'noGpu'> {
  receiver: Receiver;
  /** Resolves with the reason when the device goes away by itself. */
  lost: Promise<string>;
}

/** Takes a chain through a receiver, one step at a time. Knows nothing of the page but a callback. */
export class Runner {
  readonly state: State;
  private receiver: Receiver | undefined;
  private abort = new AbortController();

  constructor(
    settings: Settings,
    private readonly open: OpenReceiver,
    private readonly changed: (state: State) => void,
  ) {
    this.state = { ...blank(), settings };
  }

  /** Loads the folder and its base anew; whatever was going on is stopped. */
  async load(settings: Settings): Promise<void> {
    this.abort.abort();
    this.abort = new AbortController();
    const { signal } = this.abort;
    this.receiver?.free();
    this.receiver = undefined;
    this.update({ ...blank(), settings });
    await this.guard(async () => {
      const chain = await loadChain(settings.folder, signal);
      this.update({ chain });
      const { receiver, lost, device, noGpu } = await this.open(chain, settings);
      if (signal.aborted) return receiver.free();
      this.receiver = receiver;
      const { kind, layout, canUndo } = receiver;
      this.update({ status: 'ready', device, noGpu, receiver: { kind, layout, canUndo } });
      void lost.then((reason) => {
        if (!signal.aborted) this.fail(new DemoError('device_lost', reason));
      });
    });
  }

  /** Steps until the end, a failure, or `pause`. */
  async start(): Promise<void> {
    if (!canStep(this.state)) return;
    this.update({ status: 'running', failure: undefined });
    await this.guard(async (signal) => {
      while (this.state.status === 'running' && this.remaining() > 0) await this.applyNext(signal);
      this.settle();
    });
  }

  /** Ends the run after the step that is being applied. */
  pause(): void {
    if (this.state.status === 'running') this.update({ status: 'pausing' });
  }

  step(): Promise<void> {
    return this.once(async (signal) => {
      if (this.remaining() > 0) await this.applyNext(signal);
    });
  }

  /** Takes the last step back in place, and checks that the one before is there again. */
  undo(): Promise<void> {
    return this.once(async () => {
      const [record, chain, receiver] = [this.state.records.at(-1), this.state.chain, this.receiver];
      if (!record || !chain || !receiver || !this.state.undoable) return;
      if (!(await receiver.undo())) return this.update({ undoable: false, undoRefused: true });
      const records = this.state.records.slice(0, -1);
      this.update({ records, undoable: false, undone: this.state.undone + 1, challenge: undefined });
      if ((await this.compareBits(chain, receiver, records.length)) === false)
        throw new DemoError('not_identical', `undone, but the cells are not those of step ${record.baseStep}`);
    });
  }

  /** Asks the receiver for its fingerprint with a seed nobody could know, and the CPU for that of the cells read back. */
  challenge(): Promise<void> {
    return this.once(async () => {
      const { chain, records } = this.state;
      if (!chain || !this.receiver) return;
      const [seed] = crypto.getRandomValues(new BigUint64Array(1)) as unknown as [bigint];
      const asked = performance.now();
      const answer = await this.receiver.fingerprint(seed);
      const answerMs = performance.now() - asked;
      this.update({ undoable: false });
      const expected = await fingerprintOnCpu(chain, await this.receiver.readBack(), seed);
      const step = stepAt(chain, records.length);
      const shown = seed.toString(16).padStart(16, '0');
      this.update({ challenge: { seed: shown, step, answer, answerMs, expected } });
      if (answer !== expected) throw new DemoError('not_identical', `the receiver answers ${answer}, the CPU ${expected}`);
    });
  }

  private async applyNext(signal: AbortSignal): Promise<void> {
    const { chain, records } = this.state;
    const entry = chain?.manifest.patches[records.length];
    if (!chain || !entry || !this.receiver) return;
    const record = await this.applyPatch(chain, this.receiver, entry, signal);
    signal.throwIfAborted();
    this.update({ records: [...this.state.records, record], undoable: this.receiver.canUndo, undoRefused: false, challenge: undefined });
    if (!isIdentical(record))
      throw new DemoError('not_identical', `step ${record.targetStep} is not bit for bit the target`);
  }

  private async applyPatch(
    chain: Chain,
    receiver: Receiver,
    entry: PatchEntry,
    signal: AbortSignal,
  ): Promise<StepRecord> {
    const begun = performance.now();
    const patch = await fetchBytes(new URL(entry.file, chain.folder), signal);
    const fetchMs = performance.now() - begun;
    const header = await readHeader(patch);
    const onProgress = (progress: State['progress']) => this.update({ progress });
    const applied = await receiver.apply(patch, { signal, onProgress });
    this.update({ progress: undefined });
    const bitsEqual = await this.compareBits(chain, receiver, this.state.records.length + 1);
    return { ...applied, file: entry.file, fetchMs, expected: header.targetFingerprint, bitsEqual };
  }

  private async compareBits(chain: Chain, receiver: Receiver, position: number): Promise<Equality> {
    const expected = hashAt(chain, position);
    return expected === undefined ? undefined : (await sha256(await receiver.readBack())) === expected;
  }

  private remaining(): number {
    return (this.state.chain?.manifest.patches.length ?? 0) - this.state.records.length;
  }

  private async once(action: (signal: AbortSignal) => Promise<void>): Promise<void> {
    if (!canStep(this.state) && this.state.status !== 'finished') return;
    this.update({ status: 'busy', failure: undefined });
    await this.guard(async (signal) => {
      await action(signal);
      this.settle();
    });
  }

  private settle(): void {
    this.update({ status: this.remaining() === 0 ? 'finished' : 'ready' });
  }

  /** Runs an action; its failure is shown, unless the folder is being loaded anew because of which it failed. */
  private async guard(action: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { signal } = this.abort;
    try {
      await action(signal);
    } catch (error) {
      if (!signal.aborted) this.fail(error);
    }
  }

  private fail(error: unknown): void {
    this.update({ status: 'failed', progress: undefined, undoable: false, failure: describeFailure(error) });
  }

  private update(change: Partial<State>): void {
    Object.assign(this.state, change);
    this.changed(this.state);
  }
}

function blank(): Omit<State, 'settings'> {
  return {
    status: 'loading',
    chain: undefined,
    receiver: undefined,
    device: undefined,
    noGpu: undefined,
    records: [],
    progress: undefined,
    undoable: false,
    undone: 0,
    undoRefused: false,
    challenge: undefined,
    failure: undefined,
  };
}

async function fingerprintOnCpu(chain: Chain, parts: readonly Uint8Array[], seed: bigint): Promise<string> {
  const tensors = chain.tensors.map((tensor, index) => ({ ...tensor, bytes: parts[index]?.slice() ?? tensor.bytes }));
  const receiver = CpuReceiver.open(tensors);
  try {
    return await receiver.fingerprint(seed);
  } finally {
    receiver.free();
  }
}
