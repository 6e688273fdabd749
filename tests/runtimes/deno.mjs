import { fileURLToPath } from 'node:url';

import { runForResult } from './child.mjs';
import { findBinary, findLavapipe, need, root, vulkanDriver } from './system.mjs';

const HOST = fileURLToPath(new URL('host.mjs', import.meta.url));

/** Runs a module in Deno, whose WebGPU is wgpu; on lavapipe it has shader-f16. */
export function launch({ module, cpu, arg, timeout }) {
  const flags = [
    'run',
    '--allow-all',
    '--no-prompt',
    '--no-remote',
    '--no-lock',
    '--node-modules-dir=manual',
    '--quiet',
  ];
  return runForResult({
    program: need(findBinary('deno'), 'deno', 'npm ci in tests/runtimes'),
    args: [...flags, HOST, JSON.stringify({ runtime: 'deno', cpu, root, module, arg })],
    // Without a Vulkan driver wgpu would quietly take OpenGL, which lacks shader-f16.
    environment: cpu ? {} : { ...vulkanDriver(findLavapipe), DENO_WEBGPU_BACKEND: 'vulkan' },
    timeout,
    runtime: 'deno',
  });
}
