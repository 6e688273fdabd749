// A patch in a file, where the runtime can read files.
import { PulseError } from './errors.js';

const failed = (url, message, cause) => new PulseError('source', `the patch cannot be read: ${url}: ${message}`, { cause });

export class FileSource {
  #url;
  #handle;
  #length;

  get length() {
    return this.#length;
  }

  constructor(url) {
    this.#url = url;
  }

  async read(offset, length) {
    const handle = await (this.#handle ??= this.#open());
    const bytes = new Uint8Array(length);
    let filled = 0;
    while (filled < length) {
      const { bytesRead } = await handle.read(bytes, filled, length - filled, offset + filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return bytes.subarray(0, filled);
  }

  async #open() {
    // By a name that bundlers do not follow.
    const name = 'node:fs/promises';
    let files;
    try {
      files = await import(/* @vite-ignore */ /* webpackIgnore: true */ name);
    } catch (thrown) {
      throw failed(this.#url, 'files cannot be read here: pass bytes, a Blob or an http(s) URL', thrown);
    }
    try {
      const handle = await files.open(new URL(this.#url));
      this.#length = (await handle.stat()).size;
      return handle;
    } catch (thrown) {
      throw failed(this.#url, thrown?.message ?? thrown, thrown);
    }
  }

  close() {
    this.#handle?.then((handle) => handle.close()).catch(() => {});
  }
}
