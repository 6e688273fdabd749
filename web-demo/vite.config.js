import { resolve } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

import sirv from 'sirv';
import { defineConfig } from 'vite';

const here = fileURLToPath(new URL('.', import.meta.url));

/** Where `cargo xtask demo` leaves the chain; PULSE_DEMO_CHAIN names another folder. */
const chainFolder = resolve(process.env.PULSE_DEMO_CHAIN ?? resolve(here, '../target/demo/chain'));

/** Serves the chain's folder as /chain, with ranges; a file that is not there is a 404, never the page. */
function serveChain() {
  const files = sirv(chainFolder, { dev: true, onNoMatch: (_, response) => response.writeHead(404).end() });
  const attach = (server) => void server.middlewares.use('/chain', files);
  return { name: 'pulse-chain', configureServer: attach, configurePreviewServer: attach };
}

export default defineConfig({
  root: here,
  // Relative, so that the built page works in any folder of any static server.
  base: './',
  appType: 'mpa',
  plugins: [serveChain()],
  build: { target: 'es2022', modulePreload: { polyfill: false } },
  // The package finds its .wasm beside its own module, which pre-bundling would move.
  optimizeDeps: { exclude: ['pulse-applier'] },
  // The package is a linked folder beside this one.
  server: { fs: { allow: [here, resolve(here, '../applier-wasm')] } },
});
