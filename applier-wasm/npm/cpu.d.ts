import type { Applied, Apply, ApplyOptions, Limits, PatchSource, TensorSpec } from './types.js';

/** Tensors in memory that patches are applied to. */
export declare class CpuSession {
  /** `step` is the one that the tensors hold; without it, the first patch's base is believed, for its fingerprints are checked. */
  constructor(options?: { step?: number; limits?: Limits });
  /**
   * Binds a tensor to `bytes` from `offset` on, which hold its cells packed, in row-major order, little-endian. They stay the
   * caller's; tensors must not overlap.
   */
  bind(name: string, spec: TensorSpec, bytes: Uint8Array, options?: { offset?: number }): void;
  /**
   * Brings the bound tensors to the patch's target. All of it is verified before the first write, and again after it; tensors that
   * are not bound are skipped.
   */
  apply(source: PatchSource, options?: ApplyOptions): Apply;
  /** Of all bound tensors with a seed of your choice: the answer to a challenge. 16 hexadecimal digits. */
  fingerprint(seed?: bigint): string;
  /** The step that the tensors hold, where known. */
  readonly step: number | undefined;
  /** Whether a failure left weights that are neither old nor new; load them anew, into a new session. */
  readonly poisoned: boolean;
  /** Gives the session's own memory back. */
  free(): void;
  [Symbol.dispose](): void;
}
