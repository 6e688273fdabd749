import type { Chain } from './chain.js';
import type { Failure } from './errors.js';
import type { DeviceInfo } from './receiver/device.js';
import type { Applied, Layout, Progress } from './receiver/receiver.js';

export type Status = 'loading' | 'ready' | 'running' | 'pausing' | 'busy' | 'finished' | 'failed';

/** Whether the cells read back are the target's: undefined where the manifest does not say what those are. */
export type Equality = boolean | undefined;

/** One applied step, and what the page found when it checked. */
export interface StepRecord extends Applied {
  file: string;
  fetchMs: number;
  /** The fingerprint by the patch's header. */
  expected: string;
  bitsEqual: Equality;
}

export interface Challenge {
  seed: string;
  step: number;
  answer: string;
  answerMs: number;
  /** The CPU's, over the cells read back. */
  expected: string;
}

export interface Settings {
  folder: URL;
  layout: Layout;
  /** Not to use a GPU even if there is one. */
  cpuOnly: boolean;
}

export interface State {
  status: Status;
  settings: Settings;
  chain: Chain | undefined;
  receiver: { kind: 'gpu' | 'cpu'; layout: Layout; canUndo: boolean } | undefined;
  device: DeviceInfo | undefined;
  /** Why there is no GPU receiver though one was wanted. */
  noGpu: string | undefined;
  records: StepRecord[];
  /** Of the step that is being applied. */
  progress: Progress | undefined;
  /** Whether the last step can be taken back now. */
  undoable: boolean;
  undone: number;
  /** Whether the receiver could not take the last step back. */
  undoRefused: boolean;
  challenge: Challenge | undefined;
  failure: Failure | undefined;
}

/** Both checks of a step: the fingerprint always, the bits where the manifest names them. */
export function isIdentical({ fingerprint, expected, bitsEqual }: StepRecord): boolean {
  return fingerprint === expected && bitsEqual !== false;
}

/** Whether another step can be taken: there is one, and nothing that happened stands in its way. */
export function canStep({ status, chain, receiver, records, failure }: State): boolean {
  const free = status === 'ready' || (status === 'failed' && failure?.retry === true && receiver !== undefined);
  return free && chain !== undefined && records.length < chain.manifest.patches.length;
}

export function denseBytes({ cells }: { cells: number }): number {
  return 2 * cells;
}
