// Proves that a runtime's WebGPU computes: a small kernel in u32 arithmetic, compared with the same arithmetic in
// JavaScript.
import { openDevice, readBuffer } from './canary.mjs';

const WORKGROUP = 64;
// Not a multiple of the workgroup, so that the bounds check matters.
const COUNT = 64 * 1024 - 3;

const LIMITS = [
  'maxBufferSize',
  'maxComputeWorkgroupStorageSize',
  'maxComputeWorkgroupsPerDimension',
  'maxStorageBufferBindingSize',
  'maxStorageBuffersPerShaderStage',
  'minStorageBufferOffsetAlignment',
];

const SHADER = /* wgsl */ `
@group(0) @binding(0) var<storage, read_write> words: array<u32>;
var<workgroup> neighbours: array<u32, ${WORKGROUP}>;

@compute @workgroup_size(${WORKGROUP})
fn mix(@builtin(global_invocation_id) global: vec3<u32>, @builtin(local_invocation_index) local: u32) {
  let index = global.x;
  var word = 0u;
  if index < arrayLength(&words) { word = words[index]; }
  neighbours[local] = word;
  workgroupBarrier();
  let next = neighbours[(local + 1u) % ${WORKGROUP}u];
  if index < arrayLength(&words) { words[index] = ((word * 0x9e3779b1u) ^ (next >> 3u)) + countOneBits(word) * index; }
}`;

function countOneBits(word) {
  let bits = 0;
  for (let rest = word; rest !== 0; rest &= rest - 1) bits += 1;
  return bits;
}

function expected(words) {
  return words.map((word, index) => {
    const group = index - (index % WORKGROUP);
    const next = words[group + ((index + 1 - group) % WORKGROUP)] ?? 0;
    return (Math.imul(word, 0x9e3779b1) ^ (next >>> 3)) + Math.imul(countOneBits(word), index);
  });
}

async function compute(device, words) {
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  const buffer = device.createBuffer({ size: words.byteLength, usage });
  device.queue.writeBuffer(buffer, 0, words);
  const pipeline = await device.createComputePipelineAsync({
    layout: 'auto',
    compute: { module: device.createShaderModule({ code: SHADER }), entryPoint: 'mix' },
  });
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(
    0,
    device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries: [{ binding: 0, resource: { buffer } }] }),
  );
  pass.dispatchWorkgroups(Math.ceil(words.length / WORKGROUP));
  pass.end();
  device.queue.submit([encoder.finish()]);
  return new Uint32Array((await readBuffer(device, buffer)).buffer);
}

export async function run({ gpu, runtime, log }) {
  const times = {};
  let last = performance.now();
  const lap = (name) => {
    const now = performance.now();
    times[name] = Math.round(now - last);
    last = now;
  };
  const { adapter, device } = await openDevice(gpu);
  device.addEventListener?.('uncapturederror', ({ error }) => log(`uncaptured: ${error.message}`));
  lap('deviceMs');
  const words = Uint32Array.from({ length: COUNT }, (_, index) => Math.imul(index + 1, 2654435761));
  const found = await compute(device, words);
  lap('computeMs');
  const wanted = expected(words);
  const wrong = wanted.findIndex((word, index) => word !== found[index]);
  if (wrong !== -1) throw new Error(`word ${wrong} is ${found[wrong]}, expected ${wanted[wrong]}`);
  const { vendor, architecture, description, device: model } = adapter.info;
  const result = {
    runtime,
    adapter: { vendor, architecture, device: model, description },
    features: [...adapter.features].sort(),
    adapterLimits: Object.fromEntries(LIMITS.map((name) => [name, adapter.limits[name]])),
    deviceLimits: Object.fromEntries(LIMITS.map((name) => [name, device.limits[name]])),
    times,
  };
  device.destroy();
  return result;
}
