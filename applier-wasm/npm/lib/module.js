import { misuse, PulseError } from './errors.js';
import { isBytes, isResponse, isUrl } from './kinds.js';

/** A file's bytes, where `fetch` does not take file URLs: in Node. */
async function readFile(url) {
  // By a name that bundlers do not follow.
  const name = 'node:fs/promises';
  const { readFile } = await import(/* @vite-ignore */ /* webpackIgnore: true */ name);
  return readFile(url);
}

/** What bundlers do with files that they do not know. */
const ADVICE =
  "A bundler may have moved the script away from its module: in Vite's dev server set optimizeDeps.exclude to ['pulse-applier'], " +
  'in esbuild copy the .wasm beside the bundle, pass init() the URL that your bundler gives pulse-applier/pulse.wasm, or import pulse-applier/inline';

const isModule = (value) => Object.prototype.toString.call(value) === '[object WebAssembly.Module]';

const isNode = () => typeof process === 'object' && !!process.versions?.node && !globalThis.Deno && !globalThis.Bun;

async function load(input, defaultUrl) {
  if (isModule(input) || isBytes(input) || isResponse(input)) return input;
  if (input !== undefined && !isUrl(input)) throw misuse('init takes a URL, a Response, bytes or a WebAssembly.Module');
  const url = input ?? defaultUrl();
  if (isBytes(url)) return url;
  if (isNode() && String(url).startsWith('file:')) return readFile(new URL(url));
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: HTTP status ${response.status}. ${ADVICE}`);
  const type = response.headers.get('content-type') ?? '';
  if (/html|javascript/.test(type)) throw new Error(`${url} is ${type}, not wasm. ${ADVICE}`);
  return response;
}

/** One wasm module: `glue` is what wasm-bindgen made, `defaultUrl` says where the module is, or has its bytes. */
export function defineModule(glue, defaultUrl) {
  let ready = false;
  let pending;

  async function start(input) {
    try {
      await glue.default({ module_or_path: await load(input, defaultUrl) });
      ready = true;
    } catch (error) {
      pending = undefined;
      if (error instanceof PulseError) throw error;
      throw new PulseError('init', `the wasm module cannot be loaded: ${error?.message ?? error}`, { cause: error });
    }
  }

  return {
    /** Loads the module once; every later call waits for the first, whatever it is given. */
    init(input) {
      pending ??= start(input);
      return pending;
    },
    ready() {
      if (!ready) throw new PulseError('misuse', 'misuse: await init() first');
      return glue;
    },
  };
}
