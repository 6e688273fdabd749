// workerd compiles no wasm from bytes.
import wasm from '../npm/dist/core/pulse.wasm';
import { run as runAnywhere } from './tour.mjs';

export const run = (context) => runAnywhere(context, wasm);
