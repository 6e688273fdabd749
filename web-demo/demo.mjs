#!/usr/bin/env node
// Serves the built page with a chain, and opens it or drives it: `cargo xtask demo` calls this.
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const USAGE = `node demo.mjs --chain DIR [--port N] [--no-open] [--cpu]
node demo.mjs --chain DIR --headless [--screenshot FILE] [--json] [--cpu]

Serves dist/ and the chain's folder on localhost and opens the browser; or, headless, takes Chromium through every
step, prints what happened, and exits with 1 if any step is not bit-identical, or if the weights were not in GPU buffers
though --cpu was not given.`;

const OPTIONS = {
  chain: { type: 'string' },
  port: { type: 'string', default: '0' },
  'no-open': { type: 'boolean', default: false },
  headless: { type: 'boolean', default: false },
  screenshot: { type: 'string' },
  json: { type: 'boolean', default: false },
  cpu: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
};

async function serve(chain, port) {
  process.env.PULSE_DEMO_CHAIN = chain;
  const { preview } = await import('vite');
  const server = await preview({
    configFile: fileURLToPath(new URL('vite.config.js', import.meta.url)),
    logLevel: 'error',
    preview: { host: '127.0.0.1', port, strictPort: port !== 0 },
  });
  return { url: `http://127.0.0.1:${server.httpServer.address().port}/`, close: () => server.close() };
}

function openBrowser(url) {
  const [program, ...args] = { darwin: ['open'], win32: ['cmd', '/c', 'start', ''] }[process.platform] ?? ['xdg-open'];
  const child = spawn(program, [...args, url], { stdio: 'ignore', detached: true });
  child.once('error', () => console.log('No browser could be opened: open the address above.'));
  child.unref();
}

async function main() {
  const { values } = parseArgs({ options: OPTIONS });
  const port = Number(values.port);
  if (values.help || !values.chain || !Number.isInteger(port) || port < 0 || port > 65535) {
    console.error(USAGE);
    return values.help ? 0 : 2;
  }
  const { url: origin, close } = await serve(values.chain, port);
  const url = values.cpu ? `${origin}?receiver=cpu` : origin;
  if (!values.headless) {
    console.log(`Serving ${url} until Ctrl-C.`);
    if (!values['no-open']) openBrowser(url);
    return undefined;
  }
  try {
    if (values.screenshot) mkdirSync(dirname(values.screenshot), { recursive: true });
    const { drive, print } = await import('./drive.mjs');
    const report = await drive(url, values.screenshot);
    if (values.json) console.log(JSON.stringify(report));
    else print(report);
    return report.passed ? 0 : 1;
  } finally {
    await close();
  }
}

main().then(
  (code) => {
    if (code !== undefined) process.exitCode = code;
  },
  (error) => {
    console.error(`error: ${error.message}`);
    process.exitCode = 1;
  },
);
