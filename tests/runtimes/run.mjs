#!/usr/bin/env node
// Runs one ES module in one runtime: `node run.mjs --help`.
import { relative, resolve, sep } from 'node:path';
import { parseArgs } from 'node:util';

import { inventory, root } from './system.mjs';

const USAGE = `node run.mjs --runtime chromium|deno|node|bun|workerd [--cpu] [--arg JSON] [--timeout SECONDS] MODULE
node run.mjs --check

Imports MODULE (a path inside this repository) in the runtime, calls
    run({ gpu, runtime, arg, readFile, log })
and prints its result as one line of JSON. Everything else goes to standard error; a failure is exit code 1.

    gpu       a GPU that passed a canary; undefined with --cpu, and always in workerd
    readFile  path relative to the repository -> Uint8Array
    arg       what --arg gives

--check prints what was found of browsers, drivers and packages, and exits with 1 when something is missing.
VK_ICD_FILENAMES selects another Vulkan driver (deno, node, bun), PULSE_CHROMIUM another browser.`;

const RUNTIMES = ['chromium', 'deno', 'node', 'bun', 'workerd'];

function usage(message) {
  process.stderr.write(`${message}\n\n${USAGE}\n`);
  process.exit(2);
}

function parse() {
  const options = {
    runtime: { type: 'string' },
    cpu: { type: 'boolean', default: false },
    arg: { type: 'string', default: 'null' },
    timeout: { type: 'string', default: '120' },
    check: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  };
  try {
    return parseArgs({ options, allowPositionals: true });
  } catch (error) {
    return usage(error.message);
  }
}

function check() {
  const found = inventory();
  process.stdout.write(`${JSON.stringify(found)}\n`);
  process.exitCode = found.missingPackages.length || Object.values(found).includes(null) ? 1 : 0;
}

async function main() {
  const { values, positionals } = parse();
  if (values.help) return void process.stdout.write(`${USAGE}\n`);
  if (values.check) return check();
  if (!RUNTIMES.includes(values.runtime)) usage(`--runtime is one of ${RUNTIMES.join(', ')}`);
  if (positionals.length !== 1) usage('exactly one MODULE is needed');
  const timeout = Number(values.timeout);
  if (!(timeout > 0)) usage('--timeout is a number of seconds');
  const module = relative(root, resolve(positionals[0])).replaceAll(sep, '/');
  if (module.startsWith('../')) usage(`${positionals[0]} is not inside the repository`);
  let arg;
  try {
    arg = JSON.parse(values.arg);
  } catch (error) {
    usage(`--arg is not JSON: ${error.message}`);
  }
  const { launch } = await import(`./${values.runtime}.mjs`);
  try {
    process.stdout.write(`${await launch({ module, cpu: values.cpu, arg, timeout })}\n`);
  } catch (error) {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  }
}

await main();
