import { DemoError } from './errors.js';

/** The whole of a file, or a `network` error that names it. */
export async function fetchBytes(url: URL, signal: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  const response = await fetchFile(url, signal);
  return new Uint8Array(await response.arrayBuffer());
}

export async function fetchFile(url: URL, signal: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, { signal });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new DemoError('network', `${url.pathname}: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (!response.ok) throw new DemoError('network', `${url.pathname}: HTTP status ${response.status}`);
  return response;
}

/** SHA-256 of the parts one after another, in hexadecimal. */
export async function sha256(parts: readonly Uint8Array[]): Promise<string> {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let end = 0;
  for (const part of parts) {
    joined.set(part, end);
    end += part.length;
  }
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', joined));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
