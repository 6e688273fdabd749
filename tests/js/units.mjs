#!/usr/bin/env node
// Runs a Rust test binary compiled for wasm32-unknown-unknown; a failed test traps. Cargo calls it as a target's runner.
import { readFileSync } from 'node:fs';

const module = new WebAssembly.Module(readFileSync(process.argv[2]));
const imports = {};
for (const { module: from, name } of WebAssembly.Module.imports(module)) {
  imports[from] ??= {};
  imports[from][name] = () => {
    throw new Error(`a unit test called ${name} of JS`);
  };
}
process.exitCode = new WebAssembly.Instance(module, imports).exports.main(0, 0);
