import { BLANK, serve } from './serve.mjs';
import { findChromium, need, withPrivateHome } from './system.mjs';

// SwiftShader by name, so that the result does not depend on the machine's GPU. The rest keeps the browser from
// calling home, which on a machine without a network costs seconds of refused connections.
const FLAGS = [
  '--no-sandbox',
  '--enable-unsafe-webgpu',
  '--use-webgpu-adapter=swiftshader',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
  '--disable-quic',
];

/**
 * Gives `body` a headless Chromium and a server of this repository: `{ browser, origin, run }`, where `run(job)` is
 * the JSON text of the result of one module, in a context and page of its own. Any number of modules can run, one
 * after another.
 */
export function withBrowser(body) {
  const executablePath = need(findChromium(), 'Chromium', 'apt-get install chromium, or set PULSE_CHROMIUM');
  return withPrivateHome(async (env) => {
    const { chromium } = await import('playwright-core');
    const server = await serve();
    try {
      const browser = await chromium.launch({ executablePath, args: FLAGS, env });
      try {
        return await body({ browser, origin: server.origin, run: (job) => runInPage(browser, server.origin, job) });
      } finally {
        await browser.close();
      }
    } finally {
      await server.close();
    }
  });
}

async function runInPage(browser, origin, { module, cpu, arg, timeout }) {
  const context = await browser.newContext();
  let timer;
  try {
    const page = await context.newPage();
    const failed = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error(`chromium: no result after ${timeout} s`)), timeout * 1000);
      page.on('console', (message) => process.stderr.write(`${message.text()}\n`));
      page.on('pageerror', (error) => reject(new Error(`chromium: uncaught ${error.stack}`)));
      page.on('crash', () => reject(new Error('chromium: the page crashed')));
    });
    await Promise.race([page.goto(origin + BLANK), failed]);
    return await Promise.race([page.evaluate(runModule, { module: `/${module}`, cpu, arg }), failed]);
  } finally {
    clearTimeout(timer);
    await context.close();
  }
}

// Sent to the page as source text: it sees nothing of this file.
async function runModule({ module, cpu, arg }) {
  const { openDevice } = await import('/tests/runtimes/canary.mjs');
  const { run } = await import(module);
  if (!cpu) (await openDevice(navigator.gpu)).device.destroy();
  const readFile = async (path) => {
    const response = await fetch(`/${path}`);
    if (!response.ok) throw new Error(`${path}: HTTP status ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
  };
  const result = await run({
    gpu: cpu ? undefined : navigator.gpu,
    runtime: 'chromium',
    arg,
    readFile,
    log: (...parts) => console.log(...parts),
  });
  return JSON.stringify(result) ?? 'null';
}

/** Runs one module in a browser of its own. */
export function launch(job) {
  return withBrowser(({ run }) => run(job));
}
