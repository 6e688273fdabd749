// The same with a module that can open a GPU of its own.
import * as glue from './dist/wgpu/pulse.js';
import { defineCpuSession } from './lib/cpu.js';
import { disposable } from './lib/dispose.js';
import { defineGpuSession } from './lib/gpu.js';
import { defineReadHeader } from './lib/header.js';
import { defineModule } from './lib/module.js';

export { PulseError } from './lib/errors.js';

const module = defineModule(glue, () => new URL('./dist/wgpu/pulse.wasm', import.meta.url));

export const init = module.init;
export const CpuSession = disposable(defineCpuSession(module));
export const GpuSession = disposable(defineGpuSession(module));
export const readHeader = defineReadHeader(module);
