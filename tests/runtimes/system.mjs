// Finds what the launchers need and npm cannot bring: a browser, Vulkan drivers, the native binaries inside platform
// packages.
import { accessSync, constants, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const here = dirname(fileURLToPath(import.meta.url));

/** The root of this repository; every path a module names is relative to it. */
export const root = dirname(dirname(here));

const CHROMIUM_NAMES = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome', 'chrome'];
const CHROMIUM_FOLDERS = [
  '/usr/lib/chromium',
  '/usr/lib/chromium-browser',
  '/usr/lib64/chromium-browser',
  '/opt/google/chrome',
];
const MAC_CHROMIUM = [
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];
const ICD_FOLDERS = ['/usr/share/vulkan/icd.d', '/etc/vulkan/icd.d', '/usr/local/share/vulkan/icd.d'];

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** A Chromium or Chrome; PULSE_CHROMIUM overrides the usual names. */
export function findChromium() {
  const named = process.env.PULSE_CHROMIUM;
  if (named) return isExecutable(named) ? named : undefined;
  const folders = (process.env.PATH ?? '').split(delimiter);
  const candidates = CHROMIUM_NAMES.flatMap((name) => folders.map((folder) => join(folder, name)));
  return [...candidates, ...MAC_CHROMIUM].find(isExecutable);
}

/** SwiftShader's Vulkan driver, which ships inside Chromium. */
export function findSwiftShader() {
  return CHROMIUM_FOLDERS.map((folder) => join(folder, 'vk_swiftshader_icd.json')).find(existsSync);
}

/** Mesa's lavapipe; the file is `lvp_icd.json`, with an architecture in the name on some systems. */
export function findLavapipe() {
  for (const folder of ICD_FOLDERS.filter(existsSync)) {
    const file = readdirSync(folder).find((name) => name.startsWith('lvp_icd.') && name.endsWith('.json'));
    if (file) return join(folder, file);
  }
  return undefined;
}

// Called directly, without the packages' own wrappers: those need install scripts, and put a process in between that
// outlives a kill.
const BINARIES = {
  deno: { scope: '@deno', prefix: `${process.platform}-${process.arch}`, path: 'deno' },
  bun: { scope: '@oven', prefix: `bun-${process.platform}-`, path: 'bin/bun' },
  workerd: { scope: '@cloudflare', prefix: 'workerd-', path: 'bin/workerd' },
};

/** The native binary of `deno`, `bun` or `workerd`; npm installs the one platform package that fits. */
export function findBinary(name) {
  const { scope, prefix, path } = BINARIES[name];
  const folder = join(here, 'node_modules', scope);
  const packages = existsSync(folder) ? readdirSync(folder).filter((entry) => entry.startsWith(prefix)) : [];
  const suffix = process.platform === 'win32' ? '.exe' : '';
  return packages.map((entry) => join(folder, entry, path + suffix)).find(isExecutable);
}

function isPackageInstalled(name) {
  try {
    require.resolve(`${name}/package.json`);
    return true;
  } catch (error) {
    // `exports` may hide package.json of a package that is there.
    return error.code === 'ERR_PACKAGE_PATH_NOT_EXPORTED';
  }
}

/** The Vulkan loader, which Dawn and wgpu open by name; Chromium's own copy is for Chromium alone. */
export function findVulkanLoader() {
  const libraries = ['/usr/lib', '/usr/lib64', '/usr/local/lib'].filter(existsSync);
  const folders = libraries.flatMap((library) => [
    library,
    ...readdirSync(library, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => join(library, entry.name)),
  ]);
  return folders
    .filter((folder) => !CHROMIUM_FOLDERS.includes(folder))
    .map((folder) => join(folder, 'libvulkan.so.1'))
    .find(existsSync);
}

/** What each runtime needs beyond Node, and where it was found; null where it is missing. */
export function inventory() {
  const missingPackages = Object.keys(require('./package.json').devDependencies).filter(
    (name) => !isPackageInstalled(name),
  );
  return {
    chromium: findChromium() ?? null,
    swiftshader: findSwiftShader() ?? null,
    lavapipe: findLavapipe() ?? null,
    vulkanLoader: findVulkanLoader() ?? null,
    deno: findBinary('deno') ?? null,
    bun: findBinary('bun') ?? null,
    workerd: findBinary('workerd') ?? null,
    missingPackages,
  };
}

/** `value`, or an error that says what to install. */
export function need(value, what, how) {
  if (!value) throw new Error(`${what} not found: ${how}`);
  return value;
}

/** The Vulkan driver to use: the caller's choice in the environment, else the given software driver. */
export function vulkanDriver(software) {
  const { VK_DRIVER_FILES, VK_ICD_FILENAMES } = process.env;
  // Loaders before 1.3.207 know only the old name, newer ones prefer the new one.
  const chosen =
    VK_DRIVER_FILES ??
    VK_ICD_FILENAMES ??
    need(software(), 'a software Vulkan driver', 'apt-get install chromium mesa-vulkan-drivers libvulkan1');
  return { VK_DRIVER_FILES: chosen, VK_ICD_FILENAMES: chosen };
}

/**
 * Runs `body` with an environment whose home, caches and sockets are in a folder that is gone afterwards: browser
 * profiles, and the caches of Deno, Bun and Mesa. Deno's wgpu wants XDG_RUNTIME_DIR to be there.
 */
export function withPrivateHome(body) {
  return withTemporaryFolder((folder) => {
    const { DENO_DIR: _, ...inherited } = process.env;
    return body({
      ...inherited,
      HOME: folder,
      XDG_CACHE_HOME: folder,
      XDG_CONFIG_HOME: folder,
      XDG_RUNTIME_DIR: folder,
    });
  });
}

/** Runs `body` with a temporary folder that is gone afterwards. */
export async function withTemporaryFolder(body) {
  const folder = mkdtempSync(join(tmpdir(), 'pulse-runtimes-'));
  try {
    return await body(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
