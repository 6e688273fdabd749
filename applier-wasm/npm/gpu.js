// The smallest: GPUs through the page's own handles.
import * as glue from './dist/core/pulse.js';
import { disposable } from './lib/dispose.js';
import { defineConvertF16, defineGpuSession } from './lib/gpu.js';
import { defineReadHeader } from './lib/header.js';
import { defineModule } from './lib/module.js';

export { PulseError } from './lib/errors.js';

const module = defineModule(glue, () => new URL('./dist/core/pulse.wasm', import.meta.url));

export const init = module.init;
export const GpuSession = disposable(defineGpuSession(module));
export const convertF16 = defineConvertF16(module);
export const readHeader = defineReadHeader(module);
