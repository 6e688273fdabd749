// The flags of WebGPU, which TypeScript's own library leaves out.
declare const GPUBufferUsage: Readonly<Record<'MAP_READ' | 'COPY_SRC' | 'COPY_DST' | 'STORAGE', number>>;
declare const GPUMapMode: Readonly<Record<'READ' | 'WRITE', number>>;
