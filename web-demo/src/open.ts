import { init } from 'pulse-applier';

import type { Chain } from './chain.js';
import { CpuReceiver } from './receiver/cpu.js';
import { openDevice, type OpenDevice } from './receiver/device.js';
import { GpuReceiver } from './receiver/gpu.js';
import type { Opened } from './runner.js';
import type { Settings } from './state.js';

const NEVER = new Promise<string>(() => {});

/** A GPU receiver where there is a GPU and nobody asked for less; else one on the CPU, and why. */
export async function openReceiver(chain: Chain, settings: Settings): Promise<Opened> {
  await init();
  const found = settings.cpuOnly ? undefined : await openDevice();
  if (typeof found === 'object') return openOnGpu(found, chain, settings);
  const receiver = CpuReceiver.open(chain.tensors, chain.manifest.baseStep);
  return { receiver, device: undefined, noGpu: found, lost: NEVER };
}

async function openOnGpu({ device, info }: OpenDevice, chain: Chain, settings: Settings): Promise<Opened> {
  const lost = device.lost.then(({ reason, message }) => message || reason);
  const receiver = await GpuReceiver.open(device, chain.tensors, chain.manifest.baseStep, settings.layout);
  return { receiver, device: info, noGpu: undefined, lost };
}
