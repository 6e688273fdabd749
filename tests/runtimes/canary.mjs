// A device is believed only once a value written to it has been read back: bun-webgpu without a Vulkan driver hands
// out a "null" adapter that accepts every call and computes nothing.
const WORDS = Uint32Array.from({ length: 64 }, (_, index) => Math.imul(index + 1, 0x9e3779b1) >>> 0);

/**
 * An adapter and a device that keeps what is written to it; throws otherwise. `describe` makes the descriptor of the
 * device from the adapter: features, limits.
 */
export async function openDevice(gpu, describe = () => ({})) {
  const adapter = await gpu?.requestAdapter();
  if (!adapter) throw new Error('no WebGPU adapter');
  const device = await adapter.requestDevice(describe(adapter));
  await checkCanary(device);
  return { adapter, device };
}

async function checkCanary(device) {
  const buffer = device.createBuffer({
    size: WORDS.byteLength,
    usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
  });
  device.queue.writeBuffer(buffer, 0, WORDS);
  const read = new Uint32Array((await readBuffer(device, buffer)).buffer);
  buffer.destroy();
  if (!WORDS.every((word, index) => word === read[index]))
    throw new Error('the WebGPU adapter does not keep what is written (null backend?)');
}

/** The bytes of `buffer`, copied out. */
export async function readBuffer(device, buffer, offset = 0, size = buffer.size - offset) {
  const staging = device.createBuffer({ size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
  const encoder = device.createCommandEncoder();
  encoder.copyBufferToBuffer(buffer, offset, staging, 0, size);
  device.queue.submit([encoder.finish()]);
  await staging.mapAsync(GPUMapMode.READ);
  const bytes = new Uint8Array(staging.getMappedRange()).slice();
  staging.destroy();
  return bytes;
}
