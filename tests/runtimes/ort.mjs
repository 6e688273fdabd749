// onnxruntime-web as an engine that is not ours: it makes the device, we make the buffers its weights live in.
import * as ort from './node_modules/onnxruntime-web/dist/ort.webgpu.bundle.min.mjs';

import { readBuffer } from './canary.mjs';
import { encodeModel } from './onnx.mjs';

// More threads need SharedArrayBuffer, which a page has only with COOP and COEP.
ort.env.wasm.numThreads = 1;

const ARRAYS = { float32: () => Float32Array, float16: () => Float16Array };

/** A typed array of the element type's values. Float16Array is missing in Node 20. */
export function toArray(type, values) {
  return ARRAYS[type]().from(values);
}

/**
 * y[rows, columns] = (x[rows, inner] * w1[inner, middle]) * transpose(w2[columns, middle]), the second weight stored
 * transposed. `weights` ({ w1, w2 }, typed arrays) become initializers, as in a model loaded from a file; without
 * them they are graph inputs.
 */
export function twoMatMuls({ type, rows, inner, middle, columns, weights }) {
  const w1 = { name: 'w1', type, dims: [inner, middle], data: weights?.w1 };
  const w2 = { name: 'w2', type, dims: [columns, middle], data: weights?.w2 };
  return encodeModel({
    nodes: [
      { op: 'MatMul', inputs: ['x', 'w1'], outputs: ['hidden'] },
      { op: 'Transpose', inputs: ['w2'], outputs: ['w2t'], attributes: { perm: [1, 0] } },
      { op: 'MatMul', inputs: ['hidden', 'w2t'], outputs: ['y'] },
    ],
    inputs: [{ name: 'x', type, dims: [rows, inner] }, ...(weights ? [] : [w1, w2])],
    outputs: [{ name: 'y', type, dims: [rows, columns] }],
    initializers: weights ? [w1, w2] : [],
  });
}

/** A session on WebGPU, and the device that onnxruntime made for it; all sessions of a realm share that device. */
export async function createSession(model) {
  const session = await ort.InferenceSession.create(model, { executionProviders: ['webgpu'] });
  const device = await ort.env.webgpu.device;
  if (!device) throw new Error('onnxruntime runs without WebGPU');
  return { session, device };
}

/** A buffer of `device` that a weight lives in, filled from `data`; its size is rounded up to a multiple of 4 bytes. */
export function createWeightBuffer(device, data) {
  const size = Math.ceil(data.byteLength / 4) * 4;
  const buffer = device.createBuffer({
    size,
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
  });
  writeWeightBuffer(device, buffer, data);
  return buffer;
}

/** Overwrites the whole buffer; sizes of writes are multiples of 4 bytes, so a lone last f16 is padded. */
export function writeWeightBuffer(device, buffer, data) {
  const padded = new Uint8Array(buffer.size);
  padded.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  device.queue.writeBuffer(buffer, 0, padded);
}

/** `buffer` as an input: no copy, the next run reads what is in it then. */
export function bufferTensor(buffer, type, dims) {
  return ort.Tensor.fromGpuBuffer(buffer, { dataType: type, dims });
}

/** Values of the CPU as an input. */
export function valueTensor(type, values, dims) {
  return new ort.Tensor(type, toArray(type, values), dims);
}

/** One run; outputs by name, as typed arrays on the CPU. */
export async function infer(session, feeds) {
  const outputs = await session.run(feeds);
  const entries = Object.entries(outputs).map(async ([name, tensor]) => [name, await tensor.getData(true)]);
  return Object.fromEntries(await Promise.all(entries));
}

export { readBuffer };
