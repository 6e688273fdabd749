// The package: decoding, planning, memory, and GPUs through the page's own handles.
import * as glue from './dist/core/pulse.js';
import { defineCpuSession } from './lib/cpu.js';
import { disposable } from './lib/dispose.js';
import { defineGpuSession } from './lib/gpu.js';
import { defineReadHeader } from './lib/header.js';
import { defineModule } from './lib/module.js';

export { PulseError } from './lib/errors.js';

const module = defineModule(glue, () => new URL('./dist/core/pulse.wasm', import.meta.url));

export const init = module.init;
export const CpuSession = disposable(defineCpuSession(module));
export const GpuSession = disposable(defineGpuSession(module));
export const readHeader = defineReadHeader(module);
