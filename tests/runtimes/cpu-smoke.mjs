// Proves that a runtime reads files of the repository and runs wasm, without a GPU.
const WASM = 'tests/runtimes/add.wasm'; // (func (export "add") (param i32 i32) (result i32))

/** `wasm` is a WebAssembly.Module where the runtime compiles none from bytes. */
export async function run({ gpu, runtime, arg, readFile, log }, wasm) {
  if (gpu !== undefined) throw new Error('got a GPU in CPU mode');
  const bytes = await readFile(WASM);
  const { add } = (await WebAssembly.instantiate(wasm ?? (await WebAssembly.compile(bytes)))).exports;
  if (add(2 ** 31 - 1, 1) !== -(2 ** 31)) throw new Error('wrong sum');
  const missing = await readFile('no/such/file').then(
    () => false,
    () => true,
  );
  if (!missing) throw new Error('a file that does not exist was read');
  log(`${runtime}: log reaches standard error`);
  console.log(`${runtime}: console.log does not disturb the result`);
  return { runtime, wasmBytes: bytes.length, arg };
}
