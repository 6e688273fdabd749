import type { Device, DeviceBuffer, GpuSessionOptions, TensorSpec } from './types.js';
import { DeviceSession } from './types.js';

export * from './types.js';

/** Tensors in buffers of a device that wgpu opens, with the largest limits its adapter has. */
export declare class OwnGpuSession extends DeviceSession {
  /** Code `no_adapter` where there is none, or wgpu finds no `Window` or `WorkerGlobalScope` (Node, Bun). */
  static open(options?: GpuSessionOptions & { lowPower?: boolean }): Promise<OwnGpuSession>;
  private constructor();
  /** Puts packed cells into a buffer of their own and binds it; the buffer lives as long as the session. */
  load(name: string, spec: TensorSpec, bytes: ArrayBufferView): DeviceBuffer;
  /** The device, for an engine that is to work on the same buffers. */
  readonly device: Device;
}
