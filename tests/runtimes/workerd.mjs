import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';

import { runForResult } from './child.mjs';
import { findBinary, need, root, withTemporaryFolder } from './system.mjs';

const HOST = 'tests/runtimes/workerd-host.mjs';

// Static and literal dynamic imports of relative paths.
const IMPORT = /\b(?:from|import)\s*\(?\s*['"](\.{1,2}\/[^'"]+)['"]/g;

/**
 * Paths, relative to the root, of `entries` and all they import: workerd loads nothing that its configuration does
 * not name.
 */
function moduleGraph(entries) {
  const found = new Set(entries);
  for (const path of found) {
    if (!/\.m?js$/.test(path)) continue;
    for (const [, specifier] of readFileSync(join(root, path), 'utf8').matchAll(IMPORT)) {
      const target = posix.join(posix.dirname(path), specifier);
      // A path in a comment may lead nowhere; for a real import workerd says so itself.
      if (existsSync(join(root, target))) found.add(target);
    }
  }
  return [...found];
}

function describeModule(path) {
  const kind = path.endsWith('.wasm') ? 'wasm' : path.endsWith('.json') ? 'json' : 'esModule';
  return `(name = ${JSON.stringify(path)}, ${kind} = embed ${JSON.stringify(join(root, path))})`;
}

function configuration({ module, arg }) {
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (
      modules = [
        ${moduleGraph([HOST, module]).map(describeModule).join(',\n        ')}
      ],
      compatibilityDate = "2026-11-01",
      bindings = [
        (name = "job", json = ${JSON.stringify(JSON.stringify({ module, arg }))}),
        (name = "repository", service = "repository"),
        (name = "unsafeEval", unsafeEval = void)
      ]
    )),
    (name = "repository", disk = (path = ${JSON.stringify(root)}))
  ]
);
`;
}

/**
 * Runs a module in workerd, which has no WebGPU. It compiles no wasm from bytes: a module imports its .wasm
 * statically, and gets a WebAssembly.Module.
 */
export function launch({ module, arg, timeout }) {
  return withTemporaryFolder((folder) => {
    const file = join(folder, 'config.capnp');
    writeFileSync(file, configuration({ module, arg }));
    return runForResult({
      program: need(findBinary('workerd'), 'workerd', 'npm ci in tests/runtimes'),
      // For the binding that evaluates text; all else is as without.
      args: ['test', '--experimental', '--import-path=/', file],
      timeout,
      runtime: 'workerd',
    });
  });
}
