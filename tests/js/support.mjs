// What the tests in all runtimes share: the chain that `cargo xtask runtimes` makes, and assertions.
export const CHAIN = 'target/runtimes/chain';

export function assert(condition, message) {
  if (!condition) throw new Error(`assertion failed: ${message}`);
}

export function equal(found, expected, message) {
  if (!Object.is(found, expected)) throw new Error(`${message}: found ${found}, expected ${expected}`);
}

export function sameBytes(found, expected, message) {
  equal(found.byteLength, expected.byteLength, `${message}: length`);
  const place = found.findIndex((byte, index) => byte !== expected[index]);
  equal(place, -1, `${message}: first byte that differs`);
}

/** The error with which `work` fails; it must have `code`. */
export async function fails(code, work, message = code) {
  try {
    await work();
  } catch (error) {
    if (error.code !== code) throw new Error(`${message}: found code ${error.code}, expected ${code}`, { cause: error });
    return error;
  }
  throw new Error(`${message}: it did not fail`);
}

/** Tensors of a safetensors file: name, dtype, shape, and where its bytes begin and end in the file. */
export function tensorsOf(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const start = 8 + Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, start)));
  delete header.__metadata__;
  return Object.entries(header).map(([name, { dtype, shape, data_offsets: [begin, end] }]) => ({
    name,
    dtype,
    shape,
    begin: start + begin,
    end: start + end,
  }));
}

/** `[{ step, file, anchor, patch }]` in order; `patch` leads to the step and is missing for the first. */
export async function readChain(readFile) {
  const { steps } = JSON.parse(new TextDecoder().decode(await readFile(`${CHAIN}/chain.json`)));
  const read = async ({ step, file, anchor, patch, absolute }) => ({
    step,
    file: await readFile(`${CHAIN}/${file}`),
    anchor: await readFile(`${CHAIN}/${anchor}`),
    patch: patch && (await readFile(`${CHAIN}/${patch}`)),
    absolute: absolute && (await readFile(`${CHAIN}/${absolute}`)),
  });
  return Promise.all(steps.map(read));
}
