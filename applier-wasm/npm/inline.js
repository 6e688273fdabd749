// The package with its module in a script, for bundlers and servers that serve no second file.
import wasm from './dist/full/inlined.js';
import * as glue from './dist/full/pulse.js';
import { defineCpuSession } from './lib/cpu.js';
import { disposable } from './lib/dispose.js';
import { defineConvertF16, defineGpuSession } from './lib/gpu.js';
import { defineReadHeader } from './lib/header.js';
import { defineModule } from './lib/module.js';

export { PulseError } from './lib/errors.js';

const module = defineModule(glue, () => Uint8Array.from(atob(wasm), (character) => character.charCodeAt(0)));

export const init = module.init;
export const CpuSession = disposable(defineCpuSession(module));
export const GpuSession = disposable(defineGpuSession(module));
export const convertF16 = defineConvertF16(module);
export const readHeader = defineReadHeader(module);
