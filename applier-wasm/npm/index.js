// The package: GPUs through the page's own handles, and memory.
import * as glue from './dist/full/pulse.js';
import { defineCpuSession } from './lib/cpu.js';
import { disposable } from './lib/dispose.js';
import { defineConvertF16, defineGpuSession } from './lib/gpu.js';
import { defineReadHeader } from './lib/header.js';
import { defineModule } from './lib/module.js';

export { PulseError } from './lib/errors.js';

const module = defineModule(glue, () => new URL('./dist/full/pulse.wasm', import.meta.url));

export const init = module.init;
export const CpuSession = disposable(defineCpuSession(module));
export const GpuSession = disposable(defineGpuSession(module));
export const convertF16 = defineConvertF16(module);
export const readHeader = defineReadHeader(module);
