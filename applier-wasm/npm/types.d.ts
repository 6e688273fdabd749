// What every entry of the package offers.
/// <reference lib="esnext.disposable" />

/** A `GPUDevice`, where its types are known (@webgpu/types, or a DOM library that has them); else what the package uses of one. */
export type Device = typeof globalThis extends { GPUDevice: { prototype: infer D } } ? D : { readonly queue: object; readonly limits: object; readonly lost: Promise<unknown> };

/** A `GPUBuffer`, likewise. */
export type DeviceBuffer = typeof globalThis extends { GPUBuffer: { prototype: infer B } } ? B : { readonly size: number; readonly usage: number };

/** An element type, by the name safetensors gives it. */
export type Dtype =
  | 'BF16' | 'F16' | 'F8_E4M3' | 'F8_E5M2' | 'F32' | 'F64' | 'BOOL' | 'U8' | 'I8' | 'U16' | 'I16' | 'U32' | 'I32' | 'U64' | 'I64'
  | 'F4' | 'F6_E2M3' | 'F6_E3M2' | 'F8_E8M0' | 'C64' | 'F8_E4M3FNUZ' | 'F8_E5M2FNUZ';

export interface TensorSpec {
  dtype: Dtype;
  /** Outermost dimension first; empty for a scalar. */
  shape: readonly number[];
}

/** What a patch may ask for; what is left out has a default that fits any model of today. */
export interface Limits {
  /** Bytes of the unpacked header, and of all tensor names. */
  headerBytes?: number;
  tensors?: number;
  models?: number;
  segments?: number;
  /** Bytes of one segment. */
  segmentBytes?: number;
}

/** Bytes of a patch by range, from wherever the caller has them. */
export interface CustomSource {
  /** Bytes of the whole patch, where known. */
  readonly length?: number;
  /** `length` bytes from `offset` on; fewer only where the patch ends. What it gives is kept until the apply is over. */
  read(offset: number, length: number, options: { signal?: AbortSignal }): Promise<ArrayBufferView | ArrayBuffer> | ArrayBufferView | ArrayBuffer;
}

/**
 * Where a patch comes from. A string or URL is fetched by ranges, only those that are needed; a server that ignores ranges
 * gives the whole body. A `file:` URL is read where the runtime can read files.
 */
export type PatchSource =
  | ArrayBufferView | ArrayBuffer | SharedArrayBuffer | Blob | Response | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array> | URL | string
  | CustomSource;

export interface ProgressEvent {
  /** `verify` writes nothing. */
  phase: 'verify' | 'write' | 'confirm';
  /** Cells done. */
  done: number;
  /** Cells in all. */
  total: number;
}

/** All was verified; what follows is `quiesce` and the first write. */
export interface VerifiedEvent {
  phase: 'verified';
  /** Missing of an anchor, which starts from nothing. */
  baseStep?: number;
  targetStep: number;
  /** Cells that will change, of those that are bound; of an anchor all. */
  changes: number;
  cells: number;
  patchBytes: number;
  /** Bytes kept so that the patch can be taken back; undefined if that is over the session's `undoBytes`: there is no `undo` then. */
  undoBytes?: number;
}

/** A request is made again. */
export interface RetryEvent {
  phase: 'retry';
  /** Requests in a row that have failed. */
  attempt: number;
  delayMs: number;
  /** Why. */
  message: string;
}

export type ApplyEvent = ProgressEvent | VerifiedEvent | RetryEvent;

export interface ApplyOptions {
  /** Stops it with code `aborted`, as long as nothing is written; after that, the weights become whole first. */
  signal?: AbortSignal;
  onProgress?: (event: ApplyEvent) => void;
  /** A server that sends nothing for so long is given up: 30,000 by default. */
  idleMilliseconds?: number;
  /** Called once before the first write: the engine must not use the weights until `invalidate`. */
  quiesce?: () => void | Promise<void>;
  /** Called when the weights are whole again: what was derived from them (key and value caches, packed copies) is void. */
  invalidate?: () => void | Promise<void>;
}

export interface Applied {
  /** Missing of an anchor, which starts from nothing. */
  baseStep?: number;
  targetStep: number;
  /** Changes written, in bound tensors; of an anchor all cells. */
  changes: number;
  /** Cells of the bound tensors. */
  cells: number;
  /** Bytes of the patch that were needed. */
  patchBytes: number;
  /** Of the bound tensors now, with the patch's seed: 16 hexadecimal digits. */
  fingerprint: string;
  /** Bytes kept so that `undo` can take the patch back; undefined if that was over the session's `undoBytes`. */
  undoBytes?: number;
  /** Milliseconds of each phase. */
  times: { verify: number; write: number; confirm: number };
}

/**
 * Await it for the result, or loop over it for events; it runs either way. Leaving the loop early stops it, as long as nothing is written;
 * a failure after that is one of this promise.
 */
export interface Apply<T = Applied> extends Promise<T>, AsyncIterable<ApplyEvent> {}

export type ErrorCode =
  | 'damaged' | 'truncated' | 'unsupported' | 'wrong_base' | 'wrong_target' | 'limit' | 'stale' | 'mismatch' | 'binding' | 'source'
  | 'aborted' | 'hook' | 'poisoned' | 'misuse' | 'no_adapter' | 'device_lost' | 'out_of_memory' | 'gpu' | 'init' | 'internal';

export interface PatchHeader {
  runId: string;
  /** Missing of an anchor, which starts from nothing. */
  baseStep?: number;
  targetStep: number;
  /** Of all its fingerprints. */
  seed: bigint;
  patchBytes: number;
  cells: number;
  changes: number;
  /** Zeros of an anchor. */
  baseFingerprint: string;
  targetFingerprint: string;
  tensors: { name: string; dtype: Dtype; shape: number[] }[];
  segments: {
    profile: 'unchanged' | 'contextual' | 'absolute' | 'relative' | 'dense';
    cells: number;
    changes: number;
    /** Where its bytes begin in the patch. */
    offset: number;
    bytes: number;
    /** Indices into `tensors`. */
    tensors: number[];
  }[];
}

/** What `init` takes: where the wasm module is, or the module itself. */
export type ModuleSource = URL | string | Response | BufferSource | WebAssembly.Module;

export declare class PulseError extends Error {
  constructor(code: ErrorCode, message: string, options?: { cause?: unknown });
  readonly code: ErrorCode;
}

/**
 * Loads the wasm module, once; later calls wait for the first. Without an argument it is taken from beside this file, which
 * bundlers understand; workerd needs the module: `import wasm from 'pulse-applier/pulse.wasm'`.
 */
export declare function init(module?: ModuleSource): Promise<void>;

/** What a patch says of itself. Reads the header only. */
export declare function readHeader(source: PatchSource, options?: { limits?: Limits; signal?: AbortSignal }): Promise<PatchHeader>;

/** What every session has. */
export interface SessionOptions {
  /** The step that the weights are; without it the first patch's base is believed, for its fingerprints are checked. */
  step?: number;
  limits?: Limits;
  /** Bytes that may be kept so that the last patch can be taken back, 4 to 16 a change: 256 MiB by default. */
  undoBytes?: number;
}

/** What every session does, whatever holds its weights. */
export declare class Session<T = Applied> {
  protected constructor();
  /**
   * Brings the bound tensors to the patch's target, in place. The patch and the base are verified before the first write, the target after
   * it; what fails behind the first write is taken back. Tensors that are not bound are skipped. Nothing else may write to the weights
   * between `quiesce` and `invalidate`.
   */
  apply(source: PatchSource, options?: ApplyOptions): Apply<T>;
  /** Takes the last patch back; gives the step then held. Where it fails the weights are as before, and it can be called again. */
  undo(options?: Pick<ApplyOptions, 'quiesce' | 'invalidate'>): Promise<number>;
  /** The step that the weights are, where known. */
  readonly step: number | undefined;
  /** The step that `undo` would lead to. */
  readonly undoStep: number | undefined;
  /** Whether a failure left weights that are neither old nor new: apply an anchor, or load them anew, into a new session. */
  readonly poisoned: boolean;
  /** Gives the session's own memory back, never yours. */
  free(): void;
  [Symbol.dispose](): void;
}

/** Where a tensor is in a `GPUBuffer`, which needs the usages STORAGE, COPY_SRC and COPY_DST. */
export interface GpuPlace {
  buffer: DeviceBuffer;
  /** Where the tensor begins, in bytes; a multiple of the element's size. */
  offset?: number;
  /**
   * `packed`: cells as in a checkpoint. `f32`: BF16 cells widened to f32, exactly. `f16`: BF16 cells as f16, as `convertF16` makes them;
   * those that f16 does not hold exactly are the `exceptions`.
   */
  layout?: 'packed' | 'f32' | 'f16';
  exceptions?: F16Exceptions;
  /** Columns follow one another instead of rows. */
  transposed?: boolean;
  /** From a row (or, transposed, a column) to the next, in elements, where there are gaps between them. */
  stride?: number;
}

/** Cells that f16 does not hold exactly: index within the tensor, ascending, and BF16 bits. */
export interface F16Exceptions {
  cells: Uint32Array;
  bits: Uint16Array;
}

/** BF16 cells as an engine holds them in f16, rounded to nearest even, and which of them that changed. */
export declare function convertF16(bytes: ArrayBufferView): { bytes: Uint8Array; exceptions: F16Exceptions };

export interface GpuApplied extends Applied {
  /** Bytes written to the device: changes and parameters, a few for each change. */
  uploadedBytes: number;
  /** Bytes read back: fingerprints and counts, never weights. */
  readBytes: number;
  submits: number;
  dispatches: number;
  /** Bytes of the session's own buffers. */
  scratchBytes: number;
}

/** Options of a session over a GPU. */
export interface GpuSessionOptions extends SessionOptions {
  /** Bounds the session's own buffers, what is kept for undo aside: 16 MiB by default; one segment may need more. */
  scratchBytes?: number;
}

/** Tensors in GPU buffers, whoever opened the device. */
export declare class DeviceSession extends Session<GpuApplied> {
  /** Of all bound tensors as they are in the buffers now, with a seed of your choice. 16 hexadecimal digits. */
  fingerprint(seed?: bigint): Promise<string>;
}

/** Tensors in GPU buffers of an engine, on a device that may be the engine's too. */
export declare class GpuSession extends DeviceSession {
  /** Works on `device`, after making it compute something (code `no_adapter` if it does not). */
  static open(device: Device, options?: GpuSessionOptions): Promise<GpuSession>;
  private constructor();
  /** Says where a tensor is. It stays the engine's; bind tied weights once. */
  bind(name: string, spec: TensorSpec, place: GpuPlace): void;
}
