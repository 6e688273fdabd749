// The whole body of a patch at a URL, for servers without ranges; one that breaks off is asked for again.
import { ChunkSource } from './streams.js';

const isEncoded = (response) => (response.headers.get('content-encoding') ?? 'identity') !== 'identity';
const beginOf = (response) => Number(/^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '')?.[1] ?? NaN);

/** `response` is an answer with the whole body, if there is one already; `check` refuses another version of the file. */
export function wholeSource(requests, response, check) {
  let reader = response?.body?.getReader();
  let status = response?.status;
  // Ranges of a body that is compressed on the way count other bytes.
  let encoded = response ? isEncoded(response) : true;
  // Bytes given so far, and how many of the current answer were given before.
  let [at, skip] = [0, 0];

  async function reopen(signal) {
    let again = await requests.ask(at, undefined, signal, at > 0 && !encoded);
    let begin = again?.status === 206 ? beginOf(again) : 0;
    if (!again || isEncoded(again) || !(begin <= at)) {
      again?.body?.cancel().catch(() => {});
      [again, begin] = [await requests.ask(0, undefined, signal, false), 0];
    }
    check(again);
    encoded = isEncoded(again);
    [reader, status, skip] = [again.body?.getReader(), again.status, at - begin];
  }

  async function readOnce(signal) {
    try {
      return reader ? await requests.timed(signal, () => reader.read()) : { done: true };
    } catch (error) {
      reader = undefined;
      throw error;
    }
  }

  async function pullOnce(signal) {
    if (!reader) await reopen(signal);
    // What was given before is no progress: a body that always breaks off at one place is given up.
    for (;;) {
      const result = await readOnce(signal);
      if (result.done) return result;
      const value = result.value.subarray(Math.min(skip, result.value.byteLength));
      skip -= result.value.byteLength - value.byteLength;
      if (value.byteLength === 0) continue;
      if (at === 0) requests.checkBeginning(value, status);
      at += value.byteLength;
      return { done: false, value };
    }
  }

  return new ChunkSource(
    (signal) => requests.repeat(signal, () => pullOnce(signal)),
    () => void reader?.cancel().catch(() => {}),
  );
}
