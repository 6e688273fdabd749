// workerd compiles no wasm from bytes.
import wasm from '../../applier-wasm/npm/dist/full/pulse.wasm';
import { run as runAnywhere } from './cpu.mjs';

export const run = (context) => runAnywhere(context, wasm);
