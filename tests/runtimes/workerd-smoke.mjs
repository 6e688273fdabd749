// The pattern for tests in workerd: import the .wasm statically, then share the test with the other runtimes.
import wasm from './add.wasm';
import { run as runAnywhere } from './cpu-smoke.mjs';

export const run = (context) => runAnywhere(context, wasm);
