// What the page needs of a receiver, whichever processor it runs on.
import type { CheckpointTensor } from '../safetensors.js';

export type Layout = 'packed' | 'f32';
export type Phase = 'verify' | 'write' | 'confirm';

export interface Progress {
  phase: Phase;
  done: number;
  total: number;
}

/** What one step did. Bytes are bytes, times milliseconds; undefined where a receiver has no such thing. */
export interface Applied {
  /** Undefined of an anchor. */
  baseStep: number | undefined;
  targetStep: number;
  changes: number;
  cells: number;
  fingerprint: string;
  patchBytes: number;
  uploadedBytes: number | undefined;
  readBytes: number | undefined;
  submits: number | undefined;
  dispatches: number | undefined;
  /** Of the session's own buffers. */
  scratchBytes: number | undefined;
  times: { verify: number; write: number; confirm: number | undefined };
  /** From quiesce to invalidate: how long an engine would have to hold still. */
  stall: number;
}

export interface ApplyOptions {
  signal: AbortSignal;
  onProgress(progress: Progress): void;
}

export interface Receiver {
  readonly kind: 'gpu' | 'cpu';
  readonly layout: Layout;
  /** Whether the last step can be taken back in place. */
  readonly canUndo: boolean;
  apply(patch: Uint8Array, options: ApplyOptions): Promise<Applied>;
  /** Whether it could be: what would have to be kept may have been over the session's limit. */
  undo(): Promise<boolean>;
  /** 16 hexadecimal digits. */
  fingerprint(seed: bigint): Promise<string>;
  /** The tensors' cells as BF16, in the order in which they were loaded. For the page's own checks; no step needs it. */
  readBack(): Promise<Uint8Array[]>;
  free(): void;
}

/** A tensor as a session's `bind` names it. */
export function described({ dtype, shape }: CheckpointTensor): { dtype: 'BF16'; shape: number[] } {
  return { dtype, shape };
}
