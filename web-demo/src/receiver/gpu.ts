import { GpuSession, PulseError } from 'pulse-applier';

import type { CheckpointTensor } from '../safetensors.js';
import { applyTimed } from './apply.js';
import { bufferBytes, layOut, takeOut } from './cells.js';
import { described, type Applied, type ApplyOptions, type Layout, type Receiver } from './receiver.js';

/** Weights in buffers of a device that is this receiver's alone. */
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

  async undo(): Promise<boolean> {
    try {
      await this.session.undo();
      return true;
    } catch (error) {
      if (error instanceof PulseError && error.code === 'misuse') return false;
      throw error;
    }
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
    this.device.destroy();
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
