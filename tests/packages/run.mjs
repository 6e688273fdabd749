#!/usr/bin/env node
// The package as users have it: packed, installed into an empty folder, and used by runtimes, bundlers in Chromium, and TypeScript.
//     node tests/packages/run.mjs
// Prints a line a case, and fails if one ends other than expected. `cargo xtask packages` builds the modules first.
import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { chromium } from '../runtimes/node_modules/playwright-core/index.mjs';
import { inventory } from '../runtimes/system.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const npm = join(here, '../../applier-wasm/npm');
const folder = mkdtempSync(join(tmpdir(), 'pulse-packages-'));
const run = (program, ...given) => execFileSync(program, given, { cwd: folder, stdio: 'pipe', encoding: 'utf8' });
const bin = (name) => join(folder, 'node_modules/.bin', name);

const USE = `
try {
  await init();
  const session = new CpuSession();
  session.bind('a', { dtype: 'BF16', shape: [2] }, new Uint8Array(4));
  say('ok ' + session.fingerprint());
} catch (error) {
  say('failed: ' + error.code + ' ' + error.message);
}
`;
const script = (entry, say) => `import { CpuSession, init } from '${entry}';\nconst say = ${say};\n${USE}`;
const TITLE = '(text) => { document.title = text; }';
const page = (source) => `<!doctype html><title>waiting</title><link rel="icon" href="data:,"><script type="module" src="${source}"></script>`;

const TYPES = { '.js': 'text/javascript', '.html': 'text/html', '.wasm': 'application/wasm' };

/** What the page in `dir` says, served as a static server does: a page of its own for what is not there. */
async function served(dir) {
  const server = createServer((request, response) => {
    const path = new URL(request.url, 'http://localhost').pathname;
    const file = join(dir, path === '/' ? 'index.html' : path);
    let content;
    try {
      content = readFileSync(file);
    } catch {
      return response.writeHead(404, { 'content-type': 'text/html' }).end('<!doctype html>');
    }
    return response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' }).end(content);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    return await said(`http://127.0.0.1:${server.address().port}/`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

let browser;
async function said(url) {
  const args = ['--no-sandbox', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run', '--disable-quic'];
  browser ??= await chromium.launch({ executablePath: inventory().chromium, args });
  const tab = await browser.newPage();
  try {
    await tab.goto(url);
    await tab.waitForFunction(() => /^(ok|failed)/.test(document.title), undefined, { timeout: 20_000 });
    return await tab.title();
  } finally {
    await tab.close();
  }
}

/** An empty `out` with a page that runs `source`. */
function out(source) {
  rmSync(join(folder, 'out'), { recursive: true, force: true });
  mkdirSync(join(folder, 'out'));
  writeFileSync(join(folder, 'out/index.html'), page(source));
  return join(folder, 'out');
}

const vite = (name) => ({
  async build(main) {
    writeFileSync(join(folder, 'index.html'), page(`/${main}`));
    rmSync(join(folder, 'dist'), { recursive: true, force: true });
    run('node', `node_modules/${name}/bin/vite.js`, 'build', '--logLevel', 'error');
    return served(join(folder, 'dist'));
  },
  async dev(main, exclude) {
    writeFileSync(join(folder, 'index.html'), page(`/${main}`));
    rmSync(join(folder, 'node_modules/.vite'), { recursive: true, force: true });
    const { createServer: create } = await import(pathToFileURL(join(folder, `node_modules/${name}/dist/node/index.js`)).href);
    const server = await create({
      root: folder, configFile: false, logLevel: 'silent', server: { host: '127.0.0.1' }, optimizeDeps: { exclude },
    });
    await server.listen();
    try {
      return await said(`http://127.0.0.1:${server.httpServer.address().port}/`);
    } finally {
      await server.close();
    }
  },
});

function bundled(main, program, ...given) {
  const dir = out(`/${program === 'webpack' ? 'main' : 'bundle'}.js`);
  run(bin(program), ...given.map((argument) => (argument === 'MAIN' ? `./${main}` : argument)));
  return served(dir);
}

/** An app of one page, built by Turbopack to static files. */
function next(entry) {
  for (const old of ['.next', 'out']) rmSync(join(folder, old), { recursive: true, force: true });
  mkdirSync(join(folder, 'app'), { recursive: true });
  const imports = `import { useEffect } from 'react';\nimport { CpuSession, init } from '${entry}';`;
  const effect = `useEffect(() => void (async () => { const say = ${TITLE}; ${USE} })(), []);`;
  writeFileSync(join(folder, 'app/page.js'), `'use client';\n${imports}\nexport default function Page() { ${effect} return <p>waiting</p>; }\n`);
  writeFileSync(join(folder, 'app/layout.js'), 'export default function Layout({ children }) { return <html><body>{children}</body></html>; }\n');
  writeFileSync(join(folder, 'next.config.mjs'), "export default { output: 'export' };\n");
  // Vite's dev server, which ran in this process, leaves its own NODE_ENV behind.
  const env = { ...process.env, NODE_ENV: 'production', NEXT_TELEMETRY_DISABLED: '1' };
  execFileSync(bin('next'), ['build'], { cwd: folder, stdio: 'pipe', encoding: 'utf8', env });
  return served(join(folder, 'out'));
}

const OK = /^ok [0-9a-f]{16}/;
/** The module cannot be found, and the error says what to do. */
const ADVICE = /^failed: init .*optimizeDeps\.exclude.*pulse-applier\/inline/;

function cases() {
  const all = [];
  const add = (name, expected, work) => all.push({ name, expected, work });
  for (const main of ['main.js', 'inline.js']) {
    const found = main === 'inline.js' ? OK : ADVICE;
    for (const name of ['vite7', 'vite8']) {
      add(`${name} build, ${main}`, OK, () => vite(name).build(main));
      add(`${name} dev, ${main}`, name === 'vite8' ? OK : found, () => vite(name).dev(main, []));
      add(`${name} dev with optimizeDeps.exclude, ${main}`, OK, () => vite(name).dev(main, ['pulse-applier']));
    }
    add(`webpack 5, ${main}`, OK, () => bundled(main, 'webpack', '--mode', 'production', '--entry', 'MAIN', '-o', 'out'));
    add(`next with turbopack, ${main}`, OK, () => next(main === 'inline.js' ? 'pulse-applier/inline' : 'pulse-applier'));
    add(`esbuild, ${main}`, found, () => bundled(main, 'esbuild', 'MAIN', '--bundle', '--format=esm', '--outfile=out/bundle.js'));
    add(`rollup, ${main}`, found, () => bundled(main, 'rollup', 'MAIN', '-p', '@rollup/plugin-node-resolve', '-f', 'es', '-o', 'out/bundle.js'));
  }
  add('script type=module', OK, () => {
    const dir = out('/main.js');
    cpSync(join(folder, 'node_modules/pulse-applier'), join(dir, 'pulse-applier'), { recursive: true });
    writeFileSync(join(dir, 'main.js'), script('./pulse-applier/index.js', TITLE));
    return served(dir);
  });
  for (const [name, ...given] of [['node'], ['bun', 'run', '--no-install'], ['deno', 'run', '--allow-read']]) {
    const program = name === 'node' ? 'node' : inventory()[name];
    add(name, OK, () => run(program, ...given, 'console.mjs'));
  }
  for (const resolution of ['bundler', 'node16']) {
    for (const [lib, more] of [['es2020,dom', []], ['esnext,dom', []], ['esnext,dom', ['--types', '@webgpu/types']]]) {
      const module = resolution === 'bundler' ? 'esnext' : 'node16';
      const options = ['--noEmit', '--strict', '--target', 'es2020', '--module', module, '--moduleResolution', resolution, '--lib', lib, ...more];
      add(`tsc ${resolution}, ${lib} ${more.join(' ')}`, /^$/, () => run(bin('tsc'), ...options, 'types.mts'));
    }
  }
  return all;
}

try {
  copyFileSync(join(here, 'package.json'), join(folder, 'package.json'));
  copyFileSync(join(here, 'types.mts'), join(folder, 'types.mts'));
  const packed = execFileSync('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: npm, encoding: 'utf8' }).trim();
  run('npm', 'install', '--silent', '--no-audit', '--no-fund', `./${packed}`);
  writeFileSync(join(folder, 'main.js'), script('pulse-applier', TITLE));
  writeFileSync(join(folder, 'inline.js'), script('pulse-applier/inline', TITLE));
  writeFileSync(join(folder, 'console.mjs'), script('pulse-applier', 'console.log'));
  let failed = 0;
  for (const { name, expected, work } of cases()) {
    let text;
    try {
      text = await work();
    } catch (error) {
      text = `failed: ${error.stdout ?? ''}${error.stderr ?? ''}${error.message}`;
    }
    const passed = expected.test(text);
    failed += passed ? 0 : 1;
    console.log(`${passed ? 'ok    ' : 'FAILED'} ${name}${passed && expected !== ADVICE ? '' : `: ${text.slice(0, 1000)}`}`);
  }
  console.log(`${cases().length - failed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
} finally {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
}
