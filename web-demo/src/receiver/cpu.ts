import { CpuSession } from 'pulse-applier';

import type { CheckpointTensor } from '../safetensors.js';
import { applyTimed } from './apply.js';
import { described, type Applied, type ApplyOptions, type Receiver } from './receiver.js';

/** Weights in the page's memory, for browsers without WebGPU. */
export class CpuReceiver implements Receiver {
  readonly kind = 'cpu';
  readonly layout = 'packed';
  readonly canUndo = false;

  private constructor(
    private readonly session: CpuSession,
    private readonly memories: Uint8Array[],
  ) {}

  /** Takes a copy of the tensors. Without a step it may hold any. */
  static open(tensors: readonly CheckpointTensor[], step?: number) {
    const session = new CpuSession(step === undefined ? {} : { step });
    const memories = tensors.map((tensor) => {
      const memory = tensor.bytes.slice();
      session.bind(tensor.name, described(tensor), memory);
      return memory;
    });
    return new CpuReceiver(session, memories);
  }

  apply(patch: Uint8Array, options: ApplyOptions): Promise<Applied> {
    return applyTimed(this.session, patch, options);
  }

  /** It keeps nothing to undo with. */
  undo(): Promise<boolean> {
    return Promise.resolve(false);
  }

  async fingerprint(seed: bigint): Promise<string> {
    return this.session.fingerprint(seed);
  }

  readBack(): Promise<Uint8Array[]> {
    return Promise.resolve(this.memories);
  }

  free(): void {
    this.session.free();
  }
}
