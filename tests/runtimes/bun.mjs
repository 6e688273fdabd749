import { fileURLToPath } from 'node:url';

import { runForResult } from './child.mjs';
import { findBinary, findSwiftShader, need, root, vulkanDriver } from './system.mjs';

const HOST = fileURLToPath(new URL('host.mjs', import.meta.url));

/** Runs a module in Bun, whose WebGPU is Dawn from npm's `bun-webgpu`; SwiftShader for the same reason as in Node. */
export function launch({ module, cpu, arg, timeout }) {
  return runForResult({
    program: need(findBinary('bun'), 'bun', 'npm ci in tests/runtimes'),
    args: ['run', '--no-install', HOST, JSON.stringify({ runtime: 'bun', cpu, root, module, arg })],
    environment: cpu ? {} : vulkanDriver(findSwiftShader),
    timeout,
    runtime: 'bun',
  });
}
