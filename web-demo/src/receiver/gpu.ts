import * as pulse from 'pulse-applier';

import type { CheckpointTensor } from '../safetensors.js';
import { applyTimed, type Session } from './apply.js';
import { bufferBytes, layOut, takeOut } from './cells.js';
import { described, type Applied, type ApplyOptions, type Layout, type Receiver } from './receiver.js';

interface GpuSession extends Session {
  bind(name: string, spec: pulse.TensorSpec, place: { buffer: GPUBuffer; layout: Layout }): void;
  undo(): Promise<void>;
  fingerprint(seed: bigint): Promise<string>;
  free(): void;
}

interface GpuSessionType {
  open(device: GPUDevice, options: { step: number }): Promise<GpuSession>;
}

/** Undefined where the package was built without. */
export const GpuSession = (pulse as { GpuSession?: GpuSessionType }).GpuSession;

/** Weights in buffers of the page's device. */
export class GpuReceiver implements Receiver {
  readonly kind = 'gpu';
  readonly canUndo = true;

  private constructor(
    private readonly device: GPUDevice,
    private readonly session: GpuSession,
    private readonly tensors: { cells: number; buffer: GPUBuffer }[],
    readonly layout: Layout,
  ) {}

  static async open(device: GPUDevice, tensors: readonly CheckpointTensor[], step: number, layout: Layout) {
    if (!GpuSession) throw new Error('the package has no GPU session');
    const session = await GpuSession.open(device, { step });
    const bound: { cells: number; buffer: GPUBuffer }[] = [];
    const receiver = new GpuReceiver(device, session, bound, layout);
    try {
      for (const tensor of tensors) {
        const buffer = upload(device, tensor, layout);
        bound.push({ cells: tensor.cells, buffer });
        session.bind(tensor.name, described(tensor), { buffer, layout });
      }
    } catch (error) {
      receiver.free();
      throw error;
    }
    return receiver;
  }

  apply(patch: Uint8Array, options: ApplyOptions): Promise<Applied> {
    return applyTimed(this.session, patch, options);
  }

  undo(): Promise<void> {
    return this.session.undo();
  }

  fingerprint(seed: bigint): Promise<string> {
    return this.session.fingerprint(seed);
  }

  async readBack(): Promise<Uint8Array[]> {
    const parts: Uint8Array[] = [];
    for (const { cells, buffer } of this.tensors) parts.push(takeOut(await this.read(buffer), cells, this.layout));
    return parts;
  }

  free(): void {
    this.session.free();
    for (const { buffer } of this.tensors) buffer.destroy();
  }

  private async read(buffer: GPUBuffer): Promise<ArrayBuffer> {
    const usage = GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ;
    const staging = this.device.createBuffer({ size: buffer.size, usage });
    try {
      const encoder = this.device.createCommandEncoder();
      encoder.copyBufferToBuffer(buffer, 0, staging, 0, buffer.size);
      this.device.queue.submit([encoder.finish()]);
      await staging.mapAsync(GPUMapMode.READ);
      return staging.getMappedRange().slice(0);
    } finally {
      staging.destroy();
    }
  }
}

function upload(device: GPUDevice, tensor: CheckpointTensor, layout: Layout): GPUBuffer {
  const buffer = device.createBuffer({
    label: tensor.name,
    size: Math.max(4, bufferBytes(tensor.cells, layout)),
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
    mappedAtCreation: true,
  });
  layOut(tensor.bytes, layout, buffer.getMappedRange());
  buffer.unmap();
  return buffer;
}
