import { fileURLToPath } from 'node:url';

import { runForResult } from './child.mjs';
import { findSwiftShader, root, vulkanDriver } from './system.mjs';

const HOST = fileURLToPath(new URL('host.mjs', import.meta.url));

/**
 * Runs a module in Node, whose WebGPU is Dawn from npm's `webgpu`. Dawn refuses lavapipe of Mesa 22.3, so the driver
 * is SwiftShader.
 */
export function launch({ module, cpu, arg, timeout }) {
  return runForResult({
    program: process.execPath,
    args: [HOST, JSON.stringify({ runtime: 'node', cpu, root, module, arg })],
    environment: cpu ? {} : vulkanDriver(findSwiftShader),
    timeout,
    runtime: 'node',
  });
}
