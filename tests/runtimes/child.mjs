// Runs a program that reports a module's result on its standard output, and ends it at the time limit.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

import { decodeResult } from './result.mjs';
import { root, withPrivateHome } from './system.mjs';

const QUIET = { DENO_NO_UPDATE_CHECK: '1', DO_NOT_TRACK: '1', NO_COLOR: '1' };

/**
 * The JSON text of the result. Whatever else the program prints goes to standard error. Fails when the program does,
 * when it reports no result, and after `timeout` seconds.
 */
export function runForResult({ program, args, environment = {}, timeout, runtime }) {
  return withPrivateHome((home) => {
    const child = spawn(program, args, {
      cwd: root,
      env: { ...home, ...QUIET, ...environment },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    return waitForResult(child, timeout, runtime);
  });
}

async function waitForResult(child, timeout, runtime) {
  let result;
  createInterface({ input: child.stdout }).on('line', (line) => {
    const found = decodeResult(line);
    if (found === undefined) process.stderr.write(line + '\n');
    else result = found;
  });
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    child.kill('SIGKILL');
  }, timeout * 1000);
  try {
    const [code, signal] = await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (...status) => resolve(status));
    });
    if (late) throw new Error(`${runtime}: no result after ${timeout} s`);
    if (code !== 0) throw new Error(`${runtime}: failed (${signal ?? `exit code ${code}`})`);
    if (result === undefined) throw new Error(`${runtime}: ended without a result`);
    return result;
  } finally {
    clearTimeout(timer);
  }
}
