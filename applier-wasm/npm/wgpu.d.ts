import type { ApplyOptions, Apply, GpuApplied, Limits, PatchSource, TensorSpec } from './types.js';

export * from './types.js';

/** Tensors in buffers of a device that wgpu opens, with the largest limits its adapter has. */
export declare class OwnGpuSession {
  /** Code `no_adapter` where there is none, or wgpu finds no `Window` or `WorkerGlobalScope` (Node, Bun). */
  static open(options?: { lowPower?: boolean; step?: number; limits?: Limits; scratchBytes?: number }): Promise<OwnGpuSession>;
  private constructor();
  /** Puts packed cells into a buffer of their own and binds it; the buffer lives as long as the session. */
  load(name: string, spec: TensorSpec, bytes: ArrayBufferView): GPUBuffer;
  /** The device, for an engine that is to work on the same buffers. */
  readonly device: GPUDevice;
  apply(source: PatchSource, options?: ApplyOptions): Apply<GpuApplied>;
  undo(options?: Pick<ApplyOptions, 'quiesce' | 'invalidate'>): Promise<number>;
  fingerprint(seed?: bigint): Promise<string>;
  readonly step: number | undefined;
  readonly poisoned: boolean;
  free(): void;
  [Symbol.dispose](): void;
}
