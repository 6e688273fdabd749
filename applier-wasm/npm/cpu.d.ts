import type { Session, SessionOptions, TensorSpec } from './types.js';

/** Tensors in memory that patches are applied to. */
export declare class CpuSession extends Session {
  constructor(options?: SessionOptions);
  /**
   * Binds a tensor to `bytes` from `offset` on, which hold its cells packed, in row-major order, little-endian. They stay the
   * caller's; tensors that would overlap are refused: bind tied weights once.
   */
  bind(name: string, spec: TensorSpec, bytes: Uint8Array, options?: { offset?: number }): void;
  /** Of all bound tensors with a seed of your choice: the answer to a challenge. 16 hexadecimal digits. */
  fingerprint(seed?: bigint): string;
}
